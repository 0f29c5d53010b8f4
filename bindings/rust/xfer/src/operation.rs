// SPDX-License-Identifier: Apache-2.0

use crate::endpoint::Endpoint;
use crate::engine::Inner;
use crate::slab::Lent;
use crate::waiting::wait;
use crate::{Error, Result};
use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use xfer_sys as sys;

/// What the event of an operation said, or the status of the call that should have begun it.
#[derive(Default)]
pub(crate) struct End {
    pub kind: u32,
    pub status: i32,
    pub flags: u32,
    pub origin: u32,
    pub native_code: i32,
    pub bytes: u64,
    pub tag: u64,
    pub index: u64,
    pub data: Vec<u8>,
    pub peer: Option<Endpoint>,
    pub refused: Option<Error>,
}

impl End {
    pub fn result(&self) -> Result<()> {
        match &self.refused {
            Some(error) => Err(error.clone()),
            None if self.status == sys::XFER_OK => Ok(()),
            None => Err(Error::ended(self)),
        }
    }
}

type Finish<T> = Box<dyn FnOnce(End, Lent) -> T + Send>;

/// What is under way since the call that returned it: a future of its end, which can also be waited
/// for.
///
/// The result has every error: also that of a call which was refused, whose operation has ended when
/// it is returned. Any thread may wait for it, or poll it, also another one than has begun it.
///
/// Dropped, it asks for an early end, once. It does not wait for that: what the operation was lent
/// stays alive until its event, which the next polls of the engine take.
#[must_use = "dropping an operation cancels it"]
pub struct Operation<T> {
    pub(crate) engine: Arc<Inner>,
    pub(crate) word: u64,
    #[allow(dead_code)] // kept open meanwhile
    pub(crate) endpoint: Option<Endpoint>,
    refused: Option<(Error, Lent)>,
    finish: Option<Finish<T>>, // until the end was given
    asked: AtomicBool,
}

impl<T> Unpin for Operation<T> {}
// SAFETY: a shared one can only be canceled, which looks at what no shared one changes.
unsafe impl<T> Sync for Operation<T> {}

impl<T> Operation<T> {
    /// Begins by `call`, which is given the word of the event; `lent` is kept until then.
    pub(crate) fn begin<L: Any + Send>(
        engine: &Arc<Inner>,
        group: u16,
        lent: Box<L>,
        finish: impl FnOnce(End, L) -> T + Send + 'static,
        call: impl FnOnce(u64, &mut sys::xfer_error_t) -> sys::xfer_status_t,
    ) -> Self {
        let inserted = engine.under_way.insert(group, lent);
        let (word, refused) = match inserted {
            Err(lent) => (0, Some((Error::of(sys::XFER_EAGAIN), lent))),
            Ok(word) => {
                let mut detail = sys::xfer_error_t::default();
                let error = Error::detailed(call(word, &mut detail), &detail).err();
                let refused =
                    error.and_then(|error| engine.under_way.refuse(word).map(|lent| (error, lent)));
                (word, refused)
            }
        };
        let mut operation = Self::unfinished(engine, word, finish);
        operation.refused = refused;
        operation
    }

    /// One that was refused without a call.
    pub(crate) fn refused<L: Any + Send>(
        engine: &Arc<Inner>,
        error: Error,
        lent: L,
        finish: impl FnOnce(End, L) -> T + Send + 'static,
    ) -> Self {
        let mut operation = Self::unfinished(engine, 0, finish);
        operation.refused = Some((error, Box::new(lent)));
        operation
    }

    fn unfinished<L: Any + Send>(
        engine: &Arc<Inner>,
        word: u64,
        finish: impl FnOnce(End, L) -> T + Send + 'static,
    ) -> Self {
        let finish: Finish<T> = Box::new(move |end, lent| {
            finish(end, *lent.downcast().expect("what was lent comes back"))
        });
        let (engine, asked) = (engine.clone(), AtomicBool::new(false));
        Operation { engine, word, endpoint: None, refused: None, finish: Some(finish), asked }
    }

    /// It, unless the call has refused it.
    pub(crate) fn accepted(mut self) -> Result<Self> {
        match self.refused.take() {
            Some((error, _)) => {
                self.finish = None;
                Err(error)
            }
            None => Ok(self),
        }
    }

    /// Asks for an early end; the result still comes: `ECANCELED`, or what the operation had come to
    /// before. Asks only once, does not wait, and does nothing after the end. Any thread may call.
    pub fn cancel(&self) {
        if self.refused.is_none() && !self.asked.swap(true, Ordering::Relaxed) {
            // SAFETY: the engine is joined by the drop of Inner alone.
            unsafe { sys::xfer_cancel(self.engine.raw, null_mut(), self.word, u64::MAX) };
        }
    }

    /// Waits for the end in this thread, and takes events of the engine meanwhile unless another
    /// thread does. Not for a task of an executor, whose thread it blocks: await it there.
    ///
    /// # Panics
    /// If its end was given before; as [`Engine::poll`](crate::Engine::poll).
    pub fn wait(&mut self) -> T {
        let engine = self.engine.clone();
        wait(&engine, self, None).expect("it waits without limit")
    }

    /// The same for so long at most. `None` says only that the wait is over: the operation goes on,
    /// and can be waited for again.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    pub fn wait_for(&mut self, limit: Duration) -> Option<T> {
        let engine = self.engine.clone();
        wait(&engine, self, Instant::now().checked_add(limit))
    }

    /// Lets it end by itself; no early end is asked for.
    pub(crate) fn detach(mut self) {
        self.let_go();
    }

    /// Whether its event is still to come.
    fn let_go(&mut self) -> bool {
        if self.finish.take().is_none() || self.refused.take().is_some() {
            return false;
        }
        self.engine.under_way.abandon(self.word)
    }
}

impl<T> Future for Operation<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        assert!(self.finish.is_some(), "an operation was polled after its end");
        let end = match self.refused.take() {
            Some((error, lent)) => Some((End { refused: Some(error), ..End::default() }, lent)),
            None => self.engine.under_way.poll(self.word, context.waker()),
        };
        let Some((end, lent)) = end else { return Poll::Pending };
        Poll::Ready(self.finish.take().expect("it was there above")(end, lent))
    }
}

impl<T> Drop for Operation<T> {
    fn drop(&mut self) {
        if self.let_go() {
            self.cancel();
        }
    }
}
