// SPDX-License-Identifier: Apache-2.0
//! What becomes of the events that a poll has taken.

use crate::endpoint::Endpoint;
use crate::engine::Inner;
use crate::notice::Notice;
use crate::operation::End;
use crate::reference::{Id, Ref};
use crate::{lock, Error, Result};
use std::any::Any;
use std::mem::size_of;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use xfer_sys as sys;

pub(crate) const BURST: usize = 64; // events taken with one poll

impl Inner {
    /// Takes events, by the one whose turn it is.
    pub fn take_events(self: &Arc<Self>, limit: Option<Duration>) -> Result<usize> {
        // Rounded up: a wait that ends early would be begun again with nothing left.
        let millis = |limit: Duration| {
            limit.as_nanos().div_ceil(1_000_000).min(u128::from(sys::XFER_NONE - 1)) as u32
        };
        let limit = limit.map_or(sys::XFER_NONE, millis);
        let (mut events, mut count) = ([sys::xfer_event_t::default(); BURST], 0);
        let size = size_of::<sys::xfer_event_t>() as u32;
        // SAFETY: `events` has room for BURST events.
        Error::check(unsafe {
            let (raw, start, most) = (self.raw, events.as_mut_ptr(), BURST as u32);
            sys::xfer_engine_poll(raw, start, size, most, limit, &mut count)
        })?;
        let mut panic: Option<Box<dyn Any + Send>> = None;
        for event in &events[..count as usize] {
            // Wakers, and drops of what was lent, are the user's code.
            if let Err(one) = catch_unwind(AssertUnwindSafe(|| self.deliver(event))) {
                panic.get_or_insert(one);
            }
        }
        match panic {
            Some(panic) => resume_unwind(panic),
            None => Ok(count as usize),
        }
    }

    fn deliver(self: &Arc<Self>, event: &sys::xfer_event_t) {
        let end = self.end_of(event);
        match event.kind {
            sys::XFER_EVENT_CLOSED if event.object.cast() == self.raw => {
                self.ended.store(true, SeqCst);
                let word = lock(&self.closing).take();
                self.under_way.complete(word.unwrap_or(0), end);
                lock(&self.notices).upgrade().into_iter().for_each(|queue| queue.end());
                lock(&self.driver).take().into_iter().for_each(Waker::wake);
            }
            sys::XFER_EVENT_CLOSED if !event.ep.is_null() => {
                let words = lock(&self.ledger).closed(event.user);
                words.into_iter().for_each(|word| self.release(word));
                let word = lock(&self.peers).closed(event.user);
                self.under_way.complete(word.unwrap_or(0), end);
            }
            sys::XFER_EVENT_FLUSH => self.flushed(event.user, end),
            sys::XFER_EVENT_PUT
            | sys::XFER_EVENT_GET
            | sys::XFER_EVENT_BATCH
            | sys::XFER_EVENT_SEND
            | sys::XFER_EVENT_RECV
            | sys::XFER_EVENT_LOOKUP
            | sys::XFER_EVENT_PROBE
            | sys::XFER_EVENT_CONNECT
            | sys::XFER_EVENT_COUNTER
            | sys::XFER_EVENT_REVOKED
            | sys::XFER_EVENT_DRAINED
            | sys::XFER_EVENT_CLOSED
            | sys::XFER_EVENT_NOTIFIED
            | sys::XFER_EVENT_ATOMIC => self.under_way.complete(event.user, end),
            sys::XFER_EVENT_PEER => {
                lock(&self.peers).came(event.user, event.ep);
                if let Some(peer) = self.endpoint(event.user) {
                    self.tell(Notice::Came { peer, listener: event.tag, asks: self.asks });
                }
            }
            _ => self.notice(event.user, end),
        }
    }

    fn notice(self: &Arc<Self>, user: u64, mut end: End) {
        let (peer, flags) = (end.peer.take(), end.flags);
        let notice = match (end.kind, peer) {
            (sys::XFER_EVENT_PEER_UP, peer) => {
                lock(&self.peers).is_up(user, true);
                peer.map(|peer| Notice::Up {
                    peer,
                    id: Id::split_from(&mut end.data).unwrap_or_default(),
                    blob: end.data,
                    reconnected: flags & sys::XFER_RECONNECTED != 0,
                    restarted: flags & sys::XFER_RESTARTED != 0,
                })
            }
            (sys::XFER_EVENT_PEER_DOWN, peer) => {
                lock(&self.peers).is_up(user, false);
                peer.map(|peer| Notice::Down { peer, reason: end.result().err() })
            }
            (sys::XFER_EVENT_REGION_GONE, peer) => {
                let name = Ref::try_from(end.data.as_slice()).ok();
                peer.zip(name).map(|(peer, name)| Notice::RegionGone { peer, name })
            }
            (sys::XFER_EVENT_ROOM, peer) => peer.map(|peer| Notice::Room { peer }),
            (sys::XFER_EVENT_NOTIFY, peer) => Some(Notice::Notified {
                peer,
                key: end.tag,
                data: end.result().map(|()| std::mem::take(&mut end.data)),
            }),
            (sys::XFER_EVENT_STALLED, _) => Some(Notice::Stalled {
                device: end.tag as u32,
                thread: end.index as u32,
                lasting: Duration::from_nanos(end.bytes),
                reason: end.result().err(),
            }),
            (kind, _) => Some(Notice::Other { kind, status: crate::Status(end.status) }),
        };
        notice.into_iter().for_each(|notice| self.tell(notice));
    }

    fn end_of(self: &Arc<Self>, event: &sys::xfer_event_t) -> End {
        let data = match event.data_length {
            0 => Vec::new(),
            // SAFETY: that much is valid until the next poll, and nobody else has the turn.
            length => unsafe {
                std::slice::from_raw_parts(event.data.cast::<u8>(), length as usize).to_vec()
            },
        };
        let peer = match event.kind {
            sys::XFER_EVENT_RECV => self.endpoint(event.index),
            sys::XFER_EVENT_PEER_UP
            | sys::XFER_EVENT_PEER_DOWN
            | sys::XFER_EVENT_REGION_GONE
            | sys::XFER_EVENT_ROOM
            | sys::XFER_EVENT_NOTIFY => self.endpoint(event.user),
            _ => None,
        };
        End {
            kind: event.kind,
            status: event.status,
            flags: event.flags,
            origin: event.origin,
            native_code: event.native_code,
            bytes: event.bytes,
            tag: event.tag,
            index: event.index,
            data,
            peer,
            refused: None,
        }
    }

    fn endpoint(self: &Arc<Self>, user: u64) -> Option<Endpoint> {
        Endpoint::known(self, user)
    }

    /// A flush has ended; if it may have ended before what it covers, that stays lent.
    pub fn flushed(&self, word: u64, end: End) {
        let has_waited = !matches!(end.status, sys::XFER_ETIMEDOUT | sys::XFER_ECANCELED);
        let words = lock(&self.ledger).flushed(word, has_waited);
        words.into_iter().for_each(|word| self.release(word));
        self.under_way.complete(word, end);
    }

    /// What was lent to a quiet operation that has ended.
    fn release(&self, word: u64) {
        drop(self.under_way.refuse(word));
    }

    fn tell(&self, notice: Notice) {
        let queue = lock(&self.notices).upgrade();
        match queue {
            Some(queue) => queue.push(notice),
            None => drop(notice),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{sys, Engine, Notice, Status};

    #[test]
    fn an_event_of_a_later_library_is_told_as_a_number() {
        let engine = Engine::open().unwrap();
        let mut notices = engine.notices().unwrap();
        let event = sys::xfer_event_t { kind: 99, status: -999, user: 1, ..Default::default() };
        engine.inner.deliver(&event);
        let told = notices.try_next();
        assert!(matches!(told, Some(Notice::Other { kind: 99, status: Status(-999) })));
        let flags = u32::MAX; // of a kind that is known, for an endpoint that is not
        let event = sys::xfer_event_t { kind: sys::XFER_EVENT_PEER_UP, flags, ..event };
        engine.inner.deliver(&event);
        assert!(notices.try_next().is_none());
    }
}
