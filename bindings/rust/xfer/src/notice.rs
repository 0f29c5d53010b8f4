// SPDX-License-Identifier: Apache-2.0

use crate::queue::Queue;
use crate::{lock, Endpoint, Engine, Error, Id, Ref, Result, Status};
use std::future::poll_fn;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use xfer_sys as sys;

/// What an engine tells that is the end of no operation.
#[non_exhaustive]
pub enum Notice {
    /// A peer has connected to us.
    Came {
        /// A handle for it. It stays while the peer is up, and as long as there is a clone of it.
        peer: Endpoint,
        /// The number of the listener that accepted it.
        listener: u64,
        /// It waits to be let in, by [`Endpoint::admit`] or [`Endpoint::refuse`].
        asks: bool,
    },
    /// An endpoint has a connection.
    Up {
        /// The endpoint.
        peer: Endpoint,
        /// Who is at its other end.
        id: Id,
        /// What the peer shows of itself.
        blob: Vec<u8>,
        /// The same incarnation was connected before.
        reconnected: bool,
        /// It is another incarnation, or another engine: old refs are stale.
        restarted: bool,
    },
    /// That connection has ended; nothing of it lands any more.
    Down {
        /// The endpoint.
        peer: Endpoint,
        /// Why, if it was no end that was asked for.
        reason: Option<Error>,
    },
    /// A region that we had looked up was closed.
    RegionGone {
        /// The endpoint of its owner.
        peer: Endpoint,
        /// What the lookup had found.
        name: Ref,
    },
    /// A peer's notification.
    Notified {
        /// The peer, while its handle lives.
        peer: Option<Endpoint>,
        /// What the peer and we have agreed on.
        key: u64,
        /// What came with it, or why its batch failed.
        data: Result<Vec<u8>>,
    },
    /// An endpoint that has answered `EAGAIN` takes work again.
    Room {
        /// The endpoint.
        peer: Endpoint,
    },
    /// No copy from or to a device has ended for a second, or for `stall_ms` where that is less; and
    /// then, without a reason, copies go on again. Each I/O thread tells of its own copies.
    Stalled {
        /// The number of the device.
        device: u32,
        /// The I/O thread, from 0.
        thread: u32,
        /// For how long no copy had ended.
        lasting: Duration,
        /// Why; `None`: copies go on.
        reason: Option<Error>,
    },
    /// An event of a later library.
    Other {
        /// Of the event.
        kind: u32,
        /// Of the event.
        status: Status,
    },
}

/// The notices of an engine, one after the other. They are kept without bound until they are taken, or
/// this is dropped. It holds the engine; any thread may take the next one, one at a time.
pub struct Notices {
    engine: Engine,
    queue: Arc<Queue<Notice>>, // nobody else's: what nobody takes any more holds no endpoint
}

impl Engine {
    /// What the engine tells from now on. Without it notices are passed over.
    ///
    /// # Errors
    /// `EBUSY` if somebody has them already.
    pub fn notices(&self) -> Result<Notices> {
        let mut known = lock(&self.inner.notices);
        if known.strong_count() > 0 {
            return Err(Error::of(sys::XFER_EBUSY));
        }
        let queue = Arc::new(Queue::new());
        *known = Arc::downgrade(&queue);
        if self.inner.ended.load(SeqCst) {
            queue.end();
        }
        Ok(Notices { engine: self.clone(), queue })
    }
}

impl Notices {
    /// The next one, or `None` after the end of the engine; as `Stream::poll_next`.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Notice>> {
        self.queue.poll_next(context)
    }

    /// The next one, or `None` after the end of the engine.
    pub async fn next(&mut self) -> Option<Notice> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// One that is there already; takes no events.
    pub fn try_next(&mut self) -> Option<Notice> {
        self.queue.try_next()
    }

    /// Waits in this thread for the next one, so long at most; `None` also after the end of the
    /// engine.
    pub fn wait_for(&mut self, limit: Duration) -> Option<Notice> {
        let engine = self.engine.clone();
        engine.block_on_for(limit, self.next()).flatten()
    }
}
