// SPDX-License-Identifier: Apache-2.0
//! What this crate synchronizes by. The models put another file in its place.

use std::sync::PoisonError;
use std::time::Duration;

pub(crate) use std::sync::atomic::AtomicU8;
pub(crate) use std::sync::{Mutex, MutexGuard};
pub(crate) use std::thread::{current, Thread};

/// No code of the user's runs under a lock: one that was poisoned is in order.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Until this thread is unparked, so long at most.
pub(crate) fn park(limit: Option<Duration>) {
    match limit {
        Some(limit) => std::thread::park_timeout(limit),
        None => std::thread::park(),
    }
}
