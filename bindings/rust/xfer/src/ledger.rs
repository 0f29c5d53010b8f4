// SPDX-License-Identifier: Apache-2.0
//! Which quiet operations a flush tells the end of: those of its endpoint whose calls had returned
//! before it. Free of foreign functions.

use std::collections::HashMap;

#[derive(Default)]
pub(crate) struct Ledger {
    begun: HashMap<u64, Vec<u64>>, // by endpoint
    flushes: HashMap<u64, (u64, Vec<u64>)>,
}

impl Ledger {
    /// The call that began `word` on that endpoint has returned.
    pub fn begun(&mut self, endpoint: u64, word: u64) {
        self.begun.entry(endpoint).or_default().push(word);
    }

    /// A flush is about to begin.
    pub fn flushes(&mut self, endpoint: u64, flush: u64) {
        let words = self.begun.remove(&endpoint).unwrap_or_default();
        if !words.is_empty() {
            self.flushes.insert(flush, (endpoint, words));
        }
    }

    /// The flush has ended: these words are over, if it waited for them.
    pub fn flushed(&mut self, flush: u64, has_waited: bool) -> Vec<u64> {
        let Some((endpoint, words)) = self.flushes.remove(&flush) else { return Vec::new() };
        if has_waited {
            return words;
        }
        self.begun.entry(endpoint).or_default().extend(words);
        Vec::new()
    }

    /// The endpoint has ended, and all that was begun with it before.
    pub fn closed(&mut self, endpoint: u64) -> Vec<u64> {
        self.begun.remove(&endpoint).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::Ledger;

    #[test]
    fn a_flush_ends_what_was_begun_before_it() {
        let mut ledger = Ledger::default();
        ledger.begun(1, 10);
        ledger.begun(2, 20);
        ledger.flushes(1, 100);
        ledger.begun(1, 11);
        assert_eq!(ledger.flushed(100, true), [10]);
        assert_eq!(ledger.flushed(100, true), []);
        assert_eq!((ledger.closed(1), ledger.closed(2)), (vec![11], vec![20]));
    }

    #[test]
    fn a_flush_that_gave_up_ends_nothing() {
        let mut ledger = Ledger::default();
        ledger.begun(1, 10);
        ledger.flushes(1, 100);
        assert_eq!(ledger.flushed(100, false), []);
        ledger.flushes(1, 101);
        assert_eq!(ledger.flushed(101, true), [10]);
    }
}
