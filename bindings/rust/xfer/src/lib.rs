// SPDX-License-Identifier: Apache-2.0
//! Futures over libxfer; a seed of the binding.
//!
//! An operation begins with its call. What it is lent moves into it, and comes back with the
//! result; a future that is dropped asks for an early end, and what it was lent stays alive until
//! the library is through with it. Events are taken by [`Engine::poll`], as from
//! [`Engine::block_on`] or a reactor that watches [`Engine::fd`]: no thread of the library enters
//! Rust, and nothing here makes one.
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

mod batch;
mod endpoint;
mod engine;
mod error;
mod operation;
mod slab;

pub use batch::Batch;
pub use endpoint::{Endpoint, Found, Ref};
pub use engine::{Engine, Message, Notice, Region};
pub use error::Error;
pub use operation::Operation;
pub use xfer_sys as sys;
