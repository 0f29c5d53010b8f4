// SPDX-License-Identifier: Apache-2.0

use crate::endpoint::Endpoint;
use crate::engine::Inner;
use crate::slab::Lent;
use crate::Error;
use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::ptr::null_mut;
use std::sync::Arc;
use std::task::{Context, Poll};
use xfer_sys::*;

/// What the event of an operation said.
pub(crate) struct End {
    pub bytes: u64,
    pub tag: u64,
    pub index: u64,
    pub data: Vec<u8>,
    pub peer: Option<Endpoint>,
}

pub(crate) type Ended = Result<End, Error>;
type Finish<T> = Box<dyn FnOnce(Ended, Lent) -> T + Send>;

/// What is under way since the call that returned it. Dropped, it asks for an early end; what it
/// was lent stays alive until its event.
#[must_use = "dropping an operation cancels it"]
pub struct Operation<T> {
    engine: Arc<Inner>,
    word: u64,
    refused: Option<(Error, Lent)>,
    finish: Option<Finish<T>>,
}

impl<T> Unpin for Operation<T> {}

impl<T> Operation<T> {
    /// Begins by `call`, which is given the word; `lent` is kept until the event, if it is accepted.
    pub(crate) fn begin<L: Any + Send>(
        engine: &Arc<Inner>,
        lent: L,
        finish: impl FnOnce(Ended, L) -> T + Send + 'static,
        call: impl FnOnce(u64) -> xfer_status_t,
    ) -> Self {
        let word = engine.slab.lock().unwrap().insert(Box::new(lent));
        let error = Error::check(call(word)).err();
        let refused = error
            .and_then(|error| engine.slab.lock().unwrap().refuse(word).map(|lent| (error, lent)));
        let finish: Finish<T> = Box::new(move |end, lent| {
            finish(end, *lent.downcast().expect("what was lent comes back"))
        });
        Operation { engine: engine.clone(), word, refused, finish: Some(finish) }
    }

    /// It, unless the call has refused it; `detail` is what the call wrote.
    pub(crate) fn accepted(self, detail: &xfer_error_t) -> Result<Self, Error> {
        match &self.refused {
            Some((error, _)) => Err(Error::detailed(error.status, detail).unwrap_err()),
            None => Ok(self),
        }
    }

    /// Asks for an early end; the result still comes.
    pub fn cancel(&self) {
        // SAFETY: the engine is joined by the drop of Inner alone.
        unsafe { xfer_cancel(self.engine.raw, null_mut(), self.word, u64::MAX) };
    }
}

impl<T> Future for Operation<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let end = match self.refused.take() {
            Some((error, lent)) => Some((Err(error), lent)),
            None => self.engine.slab.lock().unwrap().poll(self.word, context.waker()),
        };
        let Some((end, lent)) = end else { return Poll::Pending };
        Poll::Ready(self.finish.take().expect("polled after its end")(end, lent))
    }
}

impl<T> Drop for Operation<T> {
    fn drop(&mut self) {
        if self.finish.is_none() {
            return;
        }
        let (pending, lent) = self.engine.slab.lock().unwrap().abandon(self.word);
        drop(lent); // without the lock: it may be anything
        if pending {
            self.cancel();
        }
    }
}
