// SPDX-License-Identifier: Apache-2.0

use std::io::{stderr, IsTerminal, Write};
use std::time::{Duration, Instant};

const CELLS: u64 = 40;
const EVERY: Duration = Duration::from_millis(50);

/// A bar on stderr, if that is a terminal.
pub struct Progress {
    total: u64,
    began: Instant,
    shown: Option<Instant>,
    terminal: bool,
}

impl Progress {
    pub fn begin(total: u64) -> Self {
        let (began, terminal) = (Instant::now(), stderr().is_terminal());
        Progress { total, began, shown: None, terminal }
    }

    /// So many bytes have come.
    pub fn show(&mut self, done: u64) {
        let (now, whole) = (Instant::now(), done == self.total);
        if !self.terminal || self.shown.is_some_and(|shown| !whole && now - shown < EVERY) {
            return;
        }
        self.shown = Some(now);
        let cells = (u128::from(CELLS) * u128::from(done) / u128::from(self.total)) as usize;
        let rate = done as f64 / (now - self.began).as_secs_f64() / 1e9;
        let (bar, megabytes) = ("#".repeat(cells), done as f64 / 1e6);
        let end = if whole { "\n" } else { "" };
        let text = format!("\r[{bar:.<40}] {megabytes:.1} MB  {rate:.2} GB/s{end}");
        drop(stderr().write_all(text.as_bytes())); // a bar that cannot be shown stops nothing
    }
}
