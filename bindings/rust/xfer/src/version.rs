// SPDX-License-Identifier: Apache-2.0

use crate::{Error, Result, Status};
use std::fmt;
use xfer_sys as sys;

/// A version of the library, or of the header that this crate was made from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Version(pub u32);

impl Version {
    /// Of the header.
    pub const HEADER: Version = Version(sys::XFER_VERSION);

    /// Of the library that runs.
    pub fn of_library() -> Self {
        // SAFETY: it takes nothing.
        Version(unsafe { sys::xfer_version() })
    }

    fn parts(self) -> [u32; 3] {
        [self.0 >> 16, self.0 >> 8 & 0xff, self.0 & 0xff]
    }

    /// Whether this crate can use a library of that version, as every open asks.
    ///
    /// # Errors
    /// `EVERSION`, with both versions: before 1.0 the minor version has to be the header's.
    pub fn check(self) -> Result<()> {
        let ([major, minor, _], [ours, ours_minor, _]) = (self.parts(), Self::HEADER.parts());
        if major == ours && (minor == ours_minor || major > 0 && minor > ours_minor) {
            return Ok(());
        }
        let text =
            format!("the library is {self}, and the crate xfer was made for {}", Self::HEADER);
        Err(Error::with_text(Status::EVERSION, text))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.parts();
        write!(out, "{major}.{minor}.{patch}")
    }
}
