// SPDX-License-Identifier: Apache-2.0
//! The C functions, types and constants of libxfer, as bindgen makes them from `xfer/text.h` and
//! `xfer/xfer.h`. What they promise is written there.
#![no_std]
#![allow(non_camel_case_types, non_upper_case_globals)]
#![allow(clippy::all)]

include!(concat!(env!("OUT_DIR"), "/xfer.rs"));
