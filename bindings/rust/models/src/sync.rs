// SPDX-License-Identifier: Apache-2.0
//! In the place of xfer's: loom's.

use std::sync::PoisonError;
use std::time::Duration;

pub(crate) use loom::sync::atomic::AtomicU8;
pub(crate) use loom::sync::{Mutex, MutexGuard};
pub(crate) use loom::thread::{current, Thread};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Loom has no time: a limit never comes.
pub(crate) fn park(_limit: Option<Duration>) {
    loom::thread::park();
}
