// SPDX-License-Identifier: Apache-2.0
//! The scenarios of bindings/CONTRACT.md, each under its name. Each runs between two engines over
//! TCP and by the path of one host; `path.rs` has the pair.

mod basics;
mod batches;
mod ends;
mod grants;
mod layouts;
mod messages;
mod notifications;
mod path;
mod peer;
mod peers;
mod process;
mod proxy;
mod transfers;
