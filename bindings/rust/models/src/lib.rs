// SPDX-License-Identifier: Apache-2.0
//! The parts of xfer that have no foreign functions; see `Cargo.toml`.
#![allow(dead_code)] // what only the parts with foreign functions use
#![deny(unsafe_op_in_unsafe_fn)]

#[path = "../../xfer/src/buffer.rs"]
mod buffer;
#[path = "../../xfer/src/ledger.rs"]
mod ledger;
#[path = "../../xfer/src/memory.rs"]
mod memory;
#[path = "../../xfer/src/queue.rs"]
mod queue;
#[path = "../../xfer/src/slab.rs"]
mod slab;
#[cfg(not(feature = "loom"))]
#[path = "../../xfer/src/sync.rs"]
mod sync;
#[cfg(feature = "loom")]
mod sync;
#[path = "../../xfer/src/table.rs"]
mod table;
#[path = "../../xfer/src/turns.rs"]
mod turns;
#[path = "../../xfer/src/waiting.rs"]
mod waiting;

pub use memory::Memory;

#[cfg(all(test, not(feature = "loom")))]
mod lending;
#[cfg(all(test, feature = "loom"))]
mod races;
