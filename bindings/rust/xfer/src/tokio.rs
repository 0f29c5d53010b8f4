// SPDX-License-Identifier: Apache-2.0

use crate::dispatch::BURST;
use crate::engine::Inner;
use crate::{lock, Engine};
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Weak;
use std::task::{ready, Context, Poll};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::io::Interest;

/// Takes the events of an engine inside a tokio runtime: `tokio::spawn(Driver::new(&engine)?)`.
///
/// It holds no handle of the engine, and ends when the engine was closed or its last handle dropped.
/// One for each engine; threads that wait in [`Operation::wait`](crate::Operation::wait) and the
/// like may take events beside it.
#[must_use = "it does nothing unless it is spawned"]
pub struct Driver {
    engine: Weak<Inner>,
    descriptor: AsyncFd<OwnedFd>, // a duplicate, which outlives the engine's
}

impl Driver {
    /// Watches the engine's descriptor in the runtime of the caller.
    ///
    /// # Errors
    /// Of the descriptor, or of tokio.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O.
    pub fn new(engine: &Engine) -> io::Result<Self> {
        let descriptor = engine.fd()?.as_fd().try_clone_to_owned()?;
        #[allow(deprecated)]
        // what is to take its place came with tokio 1.53; an OwnedFd suits both
        let descriptor = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
        Ok(Driver { engine: std::sync::Arc::downgrade(&engine.inner), descriptor })
    }
}

impl Future for Driver {
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let driver = self.get_mut();
        let Some(engine) = driver.engine.upgrade() else { return Poll::Ready(Ok(())) };
        *lock(&engine.driver) = Some(context.waker().clone());
        loop {
            if engine.ended.load(SeqCst) {
                return Poll::Ready(Ok(()));
            }
            let mut guard = ready!(driver.descriptor.poll_read_ready(context))?;
            let Some(_turn) = engine.turns.take_or_tell(context.waker()) else {
                return Poll::Pending; // a thread takes them, and tells when it leaves
            };
            if engine.take_events(Some(Duration::ZERO))? < BURST {
                guard.clear_ready();
            }
        }
    }
}
