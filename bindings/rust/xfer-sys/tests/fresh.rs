// SPDX-License-Identifier: Apache-2.0
//! The declarations that are shipped are those that the headers give now.
#![cfg(feature = "bindgen")]

#[test]
fn shipped_is_fresh() {
    let fresh = include_str!(concat!(env!("OUT_DIR"), "/bindings.rs"));
    let shipped = include_str!("../src/bindings.rs");
    let differs = fresh.lines().zip(shipped.lines()).position(|(one, other)| one != other);
    assert!(fresh == shipped, "they differ from line {differs:?} on: run renew-bindings.sh");
}
