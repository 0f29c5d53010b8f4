// SPDX-License-Identifier: Apache-2.0
#![doc = include_str!("../README.md")]
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

mod batch;
mod buffer;
mod call;
mod counter;
mod dispatch;
mod endpoint;
mod engine;
mod error;
mod grant;
mod handle;
mod ledger;
mod memory;
mod message;
mod notice;
mod operation;
mod options;
mod pages;
mod queue;
mod quiet;
mod reference;
mod region;
mod slab;
mod stats;
mod status;
mod stream;
mod sync;
mod table;
#[cfg(feature = "tokio")]
mod tokio;
mod transfer;
mod turns;
mod version;
mod waiting;

pub use batch::{Batch, BatchInfo, BatchWatch, Op, Span, Strided, Submit};
pub use buffer::{Lend, LendMut, Number, Own};
pub use counter::{Counted, Counter};
pub use endpoint::{Endpoint, Found, PeerInfo, PeerState};
pub use engine::Engine;
pub use error::{Error, Origin, Result};
pub use grant::{Grant, GrantOptions};
pub use memory::{Memory, Slice};
pub use message::{Match, Message, Waiting};
pub use notice::{Notice, Notices};
pub use operation::Operation;
pub use options::{EngineOptions, ListenOptions, OptionInfo, RdmaOptions};
pub use pages::{PageBase, PageNumber, Pages};
pub use quiet::Quiet;
pub use reference::{Id, Ref, RefInfo};
pub use region::{Access, Region, RegionInfo, RegionOptions};
pub use stats::{EndpointStats, EngineStats, OpStats};
pub use status::Status;
pub use stream::StreamResult;
#[cfg(feature = "tokio")]
pub use tokio::Driver;
pub use version::Version;
pub use xfer_sys as sys;

use std::ffi::CString;
use sync::lock;

fn text(text: &str) -> Result<CString> {
    CString::new(text)
        .map_err(|_| Error::with_text(Status::EINVAL, format!("{text:?} has a NUL in it")))
}
