// SPDX-License-Identifier: Apache-2.0

use crate::region::Access;
use crate::{text, Error, Result};
use std::ffi::CStr;
use std::fmt;
use std::mem::size_of;
use std::str::FromStr;
use xfer_sys as sys;

/// Names a peer's region, or a part of it, for as long as that region lives.
///
/// Carried as bytes or text by any means. Whoever has it, and the key, may use it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ref([u8; 96]);

impl Ref {
    /// Any bytes: whether they are a ref is asked when it is used.
    pub fn from_bytes(bytes: [u8; 96]) -> Self {
        Ref(bytes)
    }

    /// To be sent.
    pub fn to_bytes(self) -> [u8; 96] {
        self.0
    }

    /// What it says of itself, without asking its owner.
    ///
    /// # Errors
    /// `EINVAL` if these bytes are no ref, `EVERSION`.
    pub fn info(&self) -> Result<RefInfo> {
        let mut info = sys::xfer_ref_info_t::default();
        let size = size_of::<sys::xfer_ref_info_t>() as u32;
        // SAFETY: `info` has room for `size` bytes.
        Error::check(unsafe { sys::xfer_ref_info(&self.raw(), &mut info, size) })?;
        Ok(RefInfo {
            owner: Id::of(&info.owner),
            region: info.region,
            offset: info.offset,
            length: info.length,
            generation: info.generation,
            access: Access(info.access),
            kind: info.kind,
        })
    }

    pub(crate) fn raw(&self) -> sys::xfer_ref_t {
        sys::xfer_ref_t { bytes: self.0 }
    }
}

impl TryFrom<&[u8]> for Ref {
    type Error = std::array::TryFromSliceError;

    fn try_from(bytes: &[u8]) -> std::result::Result<Self, Self::Error> {
        bytes.try_into().map(Ref)
    }
}

/// 128 characters of base64url; bytes that are no ref, in hexadecimal digits.
impl fmt::Display for Ref {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = [0; sys::XFER_REF_TEXT_SIZE as usize];
        let size = buffer.len() as u64;
        // SAFETY: the buffer has that room, and ends with NUL after success.
        let written = unsafe {
            let status = sys::xfer_ref_text(&self.raw(), buffer.as_mut_ptr(), size);
            (status == sys::XFER_OK).then(|| CStr::from_ptr(buffer.as_ptr()).to_string_lossy())
        };
        match written {
            Some(written) => out.write_str(&written),
            None => self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}")),
        }
    }
}

impl fmt::Debug for Ref {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Ref({self})")
    }
}

impl FromStr for Ref {
    type Err = Error;

    fn from_str(from: &str) -> Result<Self> {
        let (from, mut raw) = (text(from)?, sys::xfer_ref_t::default());
        // SAFETY: both are live during the call.
        Error::check(unsafe { sys::xfer_ref_parse(from.as_ptr(), &mut raw) })?;
        Ok(Ref(raw.bytes))
    }
}

/// What a [`Ref`] says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefInfo {
    /// Whose region it is.
    pub owner: Id,
    /// The owner's number of the region, or of the grant.
    pub region: u64,
    /// In the region.
    pub offset: u64,
    /// In bytes.
    pub length: u64,
    /// Of the owner's number.
    pub generation: u32,
    /// What it allows.
    pub access: Access,
    /// `sys::XFER_MEM_*`.
    pub kind: u32,
}

/// The identity of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Id {
    /// Stays over restarts if it was given.
    pub bytes: [u8; 16],
    /// Another at every open.
    pub incarnation: u64,
}

impl Id {
    pub(crate) fn of(raw: &sys::xfer_id_t) -> Self {
        Id { bytes: raw.bytes, incarnation: raw.incarnation }
    }

    pub(crate) fn raw(&self) -> sys::xfer_id_t {
        sys::xfer_id_t { bytes: self.bytes, incarnation: self.incarnation }
    }

    /// What is at the beginning of the data of some events.
    pub(crate) fn split_from(data: &mut Vec<u8>) -> Option<Self> {
        let rest = data.split_off(data.len().min(size_of::<sys::xfer_id_t>()));
        let first = std::mem::replace(data, rest);
        Some(Id {
            bytes: first.get(..16)?.try_into().ok()?,
            incarnation: u64::from_ne_bytes(first.get(16..)?.try_into().ok()?),
        })
    }
}

/// 32 hexadecimal digits, "-", and 16 of the incarnation.
impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = [0; sys::XFER_ID_TEXT_SIZE as usize];
        let size = buffer.len() as u64;
        // SAFETY: the buffer has that room, and ends with NUL.
        let written = unsafe {
            sys::xfer_id_text(&self.raw(), buffer.as_mut_ptr(), size);
            CStr::from_ptr(buffer.as_ptr()).to_string_lossy()
        };
        out.write_str(&written)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Id({self})")
    }
}

impl FromStr for Id {
    type Err = Error;

    fn from_str(from: &str) -> Result<Self> {
        let (from, mut raw) = (text(from)?, sys::xfer_id_t::default());
        // SAFETY: both are live during the call.
        Error::check(unsafe { sys::xfer_id_parse(from.as_ptr(), &mut raw) })?;
        Ok(Id::of(&raw))
    }
}
