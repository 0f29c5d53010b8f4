// SPDX-License-Identifier: Apache-2.0

use crate::operation::End;
use crate::Status;
use std::ffi::CStr;
use std::{fmt, io};
use xfer_sys as sys;

/// What is `Ok`, or the library's word for what went wrong.
pub type Result<T> = std::result::Result<T, Error>;

/// A status that is not OK, with what is known of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    status: Status,
    text: String,
    origin: Origin,
    native_code: i32,
    flags: u32,
    bytes: u64,
    entry: Option<u64>,
}

/// Where a native code comes from; the library may know more than these.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Origin(pub u32);

impl Origin {
    /// There is no native code.
    pub const NONE: Origin = Origin(sys::XFER_ORIGIN_NONE);
    /// It is an errno.
    pub const OS: Origin = Origin(sys::XFER_ORIGIN_OS);
    /// An error of libuv's.
    pub const UV: Origin = Origin(sys::XFER_ORIGIN_UV);
    /// An error of c-ares.
    pub const CARES: Origin = Origin(sys::XFER_ORIGIN_CARES);
    /// An error of an RDMA device's.
    pub const VERBS: Origin = Origin(sys::XFER_ORIGIN_VERBS);
    /// An error of CUDA's.
    pub const CUDA: Origin = Origin(sys::XFER_ORIGIN_CUDA);
    /// The peer decided the status; the native code is that of a refused connection.
    pub const PEER: Origin = Origin(sys::XFER_ORIGIN_PEER);
}

impl Error {
    /// Of a call.
    pub(crate) fn of(status: i32) -> Self {
        let status = Status(status);
        Error {
            status,
            text: status.text().to_owned(),
            origin: Origin::NONE,
            native_code: 0,
            flags: sys::XFER_FENCED,
            bytes: 0,
            entry: None,
        }
    }

    pub(crate) fn with_text(status: Status, text: impl Into<String>) -> Self {
        Error { text: text.into(), ..Self::of(status.0) }
    }

    pub(crate) fn check(status: i32) -> Result<()> {
        if status == sys::XFER_OK {
            Ok(())
        } else {
            Err(Self::of(status))
        }
    }

    /// Of a call that has written `detail`, or left it as it was.
    pub(crate) fn detailed(status: i32, detail: &sys::xfer_error_t) -> Result<()> {
        // SAFETY: a message that was written ends with NUL, as one of zeros does.
        let text = unsafe { CStr::from_ptr(detail.message.as_ptr()) }.to_string_lossy();
        Self::check(status).map_err(|error| Error {
            text: if text.is_empty() { error.text } else { text.into_owned() },
            origin: Origin(detail.origin),
            native_code: detail.native_code,
            ..error
        })
    }

    /// Of an event; of some kinds its data is a sentence.
    pub(crate) fn ended(end: &End) -> Self {
        let has_reason = matches!(
            end.kind,
            sys::XFER_EVENT_PUT
                | sys::XFER_EVENT_GET
                | sys::XFER_EVENT_ATOMIC
                | sys::XFER_EVENT_SEND
                | sys::XFER_EVENT_NOTIFIED
                | sys::XFER_EVENT_FLUSH
                | sys::XFER_EVENT_LOOKUP
                | sys::XFER_EVENT_PROBE
                | sys::XFER_EVENT_CONNECT
                | sys::XFER_EVENT_COUNTER
                | sys::XFER_EVENT_PEER_DOWN
                | sys::XFER_EVENT_STALLED
        );
        let error = Self::of(end.status);
        Error {
            text: if has_reason && !end.data.is_empty() {
                String::from_utf8_lossy(&end.data).into_owned()
            } else {
                error.text
            },
            origin: Origin(end.origin),
            native_code: end.native_code,
            flags: end.flags,
            bytes: end.bytes,
            entry: (end.kind == sys::XFER_EVENT_BATCH).then_some(end.index),
            ..error
        }
    }

    /// The status, to be matched on.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The name of the status, such as "`XFER_ESTALE`".
    pub fn name(&self) -> &'static str {
        self.status.name()
    }

    /// One sentence about this case of it, for people: it may change from version to version.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where the native code comes from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Such as an errno; what it counts is said by the origin.
    pub fn native_code(&self) -> i32 {
        self.native_code
    }

    /// The native code in the words of where it comes from, such as "Connection refused".
    pub fn native_text(&self) -> String {
        let mut text = [0; sys::XFER_NATIVE_TEXT_SIZE as usize];
        let size = text.len() as u64;
        // SAFETY: `text` has room for `size` bytes, and what is written ends with NUL.
        unsafe {
            sys::xfer_native_text(self.origin.0, self.native_code, text.as_mut_ptr(), size);
            CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned()
        }
    }

    /// Nothing of the operation can land any more. Of a call that was refused, nothing ever did.
    pub fn is_fenced(&self) -> bool {
        self.flags & sys::XFER_FENCED != 0
    }

    /// Some bytes may have been written, and more may be: treat the range as undefined.
    pub fn maybe_applied(&self) -> bool {
        self.flags & sys::XFER_MAYBE_APPLIED != 0
    }

    /// Bytes that are known to have moved; of a message that was cut off, its length in full.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Of a batch: the first entry that failed.
    pub fn entry(&self) -> Option<u64> {
        self.entry
    }

    /// The deadline passed, or nothing moved for the stall limit.
    pub fn is_timed_out(&self) -> bool {
        self.status == Status::ETIMEDOUT
    }

    /// Canceled by the user, or by a close.
    pub fn is_canceled(&self) -> bool {
        self.status == Status::ECANCELED
    }

    /// The handle or its engine is closed or draining.
    pub fn is_closed(&self) -> bool {
        self.status == Status::ECLOSED
    }

    /// A queue is full now, and will not always be.
    pub fn is_again(&self) -> bool {
        self.status == Status::EAGAIN
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.name(), self.text)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self} (")?;
        if self.origin != Origin::NONE {
            write!(out, "{}, ", self.native_text())?;
        }
        write!(out, "{})", if self.maybe_applied() { "maybe applied" } else { "fenced" })
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.status {
            Status::EINVAL | Status::ERANGE => io::ErrorKind::InvalidInput,
            Status::ENOMEM => io::ErrorKind::OutOfMemory,
            Status::EAGAIN => io::ErrorKind::WouldBlock,
            Status::EEXIST => io::ErrorKind::AlreadyExists,
            Status::ENOTFOUND => io::ErrorKind::NotFound,
            Status::EACCESS | Status::EAUTH => io::ErrorKind::PermissionDenied,
            Status::ETIMEDOUT => io::ErrorKind::TimedOut,
            Status::EPEERLOST => io::ErrorKind::ConnectionReset,
            Status::EUNREACHABLE => io::ErrorKind::NotConnected,
            Status::EADDRINUSE => io::ErrorKind::AddrInUse,
            Status::EADDR | Status::ENAME => io::ErrorKind::AddrNotAvailable,
            Status::EUNSUPPORTED => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
