// SPDX-License-Identifier: Apache-2.0
#![doc = include_str!("../README.md")]
#![no_std]
#![allow(non_camel_case_types, non_upper_case_globals, missing_docs)]
#![allow(clippy::all, clippy::pedantic)] // of what bindgen writes

#[cfg(not(feature = "bindgen"))]
include!("bindings.rs");

#[cfg(feature = "bindgen")]
include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
