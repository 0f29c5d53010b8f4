// SPDX-License-Identifier: Apache-2.0

use std::ffi::CStr;
use std::fmt;
use xfer_sys::*;

/// A status of the library, with what is known of it.
#[derive(Debug, Clone)]
pub struct Error {
    /// `sys::XFER_E*`.
    pub status: i32,
    /// One sentence.
    pub text: String,
    /// `sys::XFER_ORIGIN_*`: where the native code comes from.
    pub origin: u32,
    /// Such as an errno.
    pub native_code: i32,
    /// Nothing of the operation can land any more.
    pub fenced: bool,
}

impl Error {
    /// The name of the status, such as "XFER_ESTALE".
    pub fn name(&self) -> String {
        // SAFETY: the name of any status is a static string.
        unsafe { CStr::from_ptr(xfer_status_name(self.status)) }.to_string_lossy().into_owned()
    }

    pub(crate) fn of(status: xfer_status_t) -> Self {
        // SAFETY: the text of any status is a static string.
        let text = unsafe { CStr::from_ptr(xfer_status_text(status)) };
        let text = text.to_string_lossy().into_owned();
        Error { status, text, origin: 0, native_code: 0, fenced: true }
    }

    pub(crate) fn check(status: xfer_status_t) -> Result<(), Self> {
        (status == XFER_OK).then_some(()).ok_or_else(|| Self::of(status))
    }

    pub(crate) fn detailed(status: xfer_status_t, detail: &xfer_error_t) -> Result<(), Self> {
        // SAFETY: a message that was written ends with NUL.
        let text = unsafe { CStr::from_ptr(detail.message.as_ptr()) };
        Self::check(status).map_err(|error| Error {
            text: text.to_string_lossy().into_owned(),
            origin: detail.origin,
            native_code: detail.native_code,
            ..error
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.name(), self.text)
    }
}

impl std::error::Error for Error {}
