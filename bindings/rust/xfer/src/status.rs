// SPDX-License-Identifier: Apache-2.0

use std::ffi::{c_char, CStr};
use std::fmt;
use xfer_sys as sys;

/// What a call or an event came to: a number of the library's, which may be one that this crate
/// does not know yet. Match on the constants.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub i32);

macro_rules! statuses {
    ($($name:ident = $number:ident: $text:literal),+ $(,)?) => {
        #[allow(missing_docs)] // each has its sentence in `statuses!`
        impl Status {
            $(#[doc = $text] pub const $name: Status = Status(sys::$number);)+
            /// Each that this crate has a constant of, by the constant's name.
            pub const ALL: &'static [(&'static str, Status)] =
                &[$((stringify!($name), Status::$name)),+];
        }
    };
}

statuses! {
    OK = XFER_OK: "Done.",
    EINVAL = XFER_EINVAL: "An argument is wrong.",
    EBADHANDLE = XFER_EBADHANDLE: "Not a live handle of that type.",
    E2BIG = XFER_E2BIG: "A struct has fields that the library does not know.",
    ENOMEM = XFER_ENOMEM: "Out of memory.",
    EAGAIN = XFER_EAGAIN: "A queue is full now; [`Notice::Room`](crate::Notice::Room) follows.",
    ETOOBIG = XFER_ETOOBIG: "Exceeds a fixed limit: retrying will not help.",
    EDEGRADED = XFER_EDEGRADED: "The path is being rebuilt.",
    EBUSY = XFER_EBUSY: "In use.",
    ECLOSED = XFER_ECLOSED: "The handle, or its engine, is closed or draining.",
    EDEADLK = XFER_EDEADLK: "The call would wait for the thread that makes it.",
    EFORKED = XFER_EFORKED: "The handle belongs to the parent of this process.",
    EUNSUPPORTED = XFER_EUNSUPPORTED: "The library's build, or these options, have no such thing.",
    EEXIST = XFER_EEXIST: "The name is taken.",
    ENOTFOUND = XFER_ENOTFOUND: "Nothing of that name, tag or index.",
    EACCESS = XFER_EACCESS: "Refused by the region, by the peer's application, or by the system.",
    ERANGE = XFER_ERANGE: "Outside the region or the memory, or the range wraps.",
    ESTALE = XFER_ESTALE: "The ref names a region or an incarnation that is gone.",
    ETIMEDOUT = XFER_ETIMEDOUT: "The deadline passed, or nothing moved for the stall limit.",
    ECANCELED = XFER_ECANCELED: "Canceled by the user, or by a close.",
    EPEERLOST = XFER_EPEERLOST: "The connection ended while the operation was under way.",
    EUNREACHABLE = XFER_EUNREACHABLE: "No connection could be made.",
    ENAME = XFER_ENAME: "The host name has no address.",
    EADDRINUSE = XFER_EADDRINUSE: "The port, or every port of the range, is taken.",
    EADDR = XFER_EADDR: "The address is malformed or not one of this host.",
    EAUTH = XFER_EAUTH: "The peer could not prove that it has the key, or a listener needs one.",
    EIDENTITY = XFER_EIDENTITY: "Not the engine that was expected answered, or owns the ref.",
    EPROTO = XFER_EPROTO: "The peer broke the protocol.",
    EVERSION = XFER_EVERSION: "A version or feature that the library does not know.",
    ETRUNC = XFER_ETRUNC: "The message was longer than the buffer.",
    ECHECKSUM = XFER_ECHECKSUM: "The payload changed on its way.",
    EMEMKIND = XFER_EMEMKIND: "No path serves memory of that kind.",
    EOVERLOAD = XFER_EOVERLOAD: "The peer sheds load.",
    EREVOKED = XFER_EREVOKED: "The grant was revoked or its lease ended.",
    ENOFILES = XFER_ENOFILES: "Out of file descriptors.",
    EIO = XFER_EIO: "The system or a device refused; see the native code.",
    ENOSPC = XFER_ENOSPC: "A buffer is too small.",
    EINTERNAL = XFER_EINTERNAL: "A defect of the library.",
}

impl Status {
    /// The name in C, such as "`XFER_ESTALE`"; "`XFER_EUNKNOWN`" of a number that the library does
    /// not know.
    pub fn name(self) -> &'static str {
        // SAFETY: the name of any status is a static string.
        unsafe { fixed(sys::xfer_status_name(self.0)) }
    }

    /// One sentence.
    pub fn text(self) -> &'static str {
        // SAFETY: the text of any status is a static string.
        unsafe { fixed(sys::xfer_status_text(self.0)) }
    }

    /// Every status that the library can return.
    pub fn of_library() -> Vec<Status> {
        let mut next = 0;
        let at = |index| {
            // SAFETY: `next` is live during the call.
            (unsafe { sys::xfer_status_at(index, &mut next) } == sys::XFER_OK).then_some(next)
        };
        (0..).map_while(at).map(Status).collect()
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.name(), self.0)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// # Safety
/// `text` is a static string of the library's: ASCII that ends with NUL.
pub(crate) unsafe fn fixed(text: *const c_char) -> &'static str {
    // SAFETY: by what the caller says.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or_default()
}
