// SPDX-License-Identifier: Apache-2.0
//! What is told until it is taken, one after the other. Free of foreign functions.

use crate::sync::{lock, Mutex};
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

pub(crate) struct Queue<T>(Mutex<State<T>>);

struct State<T> {
    values: VecDeque<T>,
    waker: Option<Waker>,
    ended: bool,
}

impl<T> Queue<T> {
    pub fn new() -> Self {
        Queue(Mutex::new(State { values: VecDeque::new(), waker: None, ended: false }))
    }

    pub fn push(&self, value: T) {
        self.change(|state| state.values.push_back(value));
    }

    /// Nothing comes any more.
    pub fn end(&self) {
        self.change(|state| state.ended = true);
    }

    fn change(&self, change: impl FnOnce(&mut State<T>)) {
        let waker = {
            let mut state = lock(&self.0);
            change(&mut state);
            state.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// The next one, or `None` after the end; of those that wait only the last is woken.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = lock(&self.0);
        if let Some(value) = state.values.pop_front() {
            return Poll::Ready(Some(value));
        }
        if state.ended {
            return Poll::Ready(None);
        }
        let before = state.waker.replace(context.waker().clone());
        drop(state);
        drop(before); // without the lock: it may be anything
        Poll::Pending
    }

    /// One that is there already.
    pub fn try_next(&self) -> Option<T> {
        lock(&self.0).values.pop_front()
    }
}
