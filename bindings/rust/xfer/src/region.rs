// SPDX-License-Identifier: Apache-2.0

use crate::handle::Handle;
use crate::operation::Operation;
use crate::options::wrong;
use crate::reference::Ref;
use crate::{text, Engine, Error, Memory, Result};
use std::ffi::CString;
use std::mem::size_of;
use std::ops::BitOr;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use xfer_sys as sys;

/// What peers may do with a region or a grant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Access(pub u32);

impl Access {
    /// Nothing: local use only.
    pub const NONE: Access = Access(0);
    /// Get.
    pub const READ: Access = Access(sys::XFER_READ);
    /// Put.
    pub const WRITE: Access = Access(sys::XFER_WRITE);
    /// Atomics.
    pub const ATOMIC: Access = Access(sys::XFER_ATOMIC);
}

impl BitOr for Access {
    type Output = Access;

    fn bitor(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// How memory is lent to peers.
#[derive(Clone, Default, Debug)]
pub struct RegionOptions {
    /// What all peers may do.
    pub access: Access,
    /// 1 to 255 bytes, unique in the engine, for lookups; default: none.
    pub name: Option<String>,
    /// Shown to peers that look it up, at most 1,024 bytes.
    pub blob: Vec<u8>,
    /// `sys::XFER_MEM_*`, a hint that is checked; default: ask the driver.
    pub kind: u32,
    /// Of memory that the library allocates: huge pages, if the system has some.
    pub huge_pages: bool,
    /// Of memory that the library allocates: the node to be preferred.
    pub numa_node: Option<u32>,
}

/// As the library counts nodes: from 1, in an `int`.
fn behind(node: u32) -> Result<u32> {
    let limit = i32::MAX as u32;
    let refused = || wrong(format!("numa_node is {node}, which is no node: {limit} is too many"));
    Some(node).filter(|node| *node < limit).map(|node| node + 1).ok_or_else(refused)
}

impl RegionOptions {
    /// Of that name and access.
    pub fn named(name: &str, access: Access) -> Self {
        RegionOptions { access, name: Some(name.to_owned()), ..Default::default() }
    }

    /// With the name that it points to.
    fn raw(&self) -> Result<(sys::xfer_region_options_t, Option<CString>)> {
        let name = self.name.as_deref().map(text).transpose()?;
        let raw = sys::xfer_region_options_t {
            size: size_of::<sys::xfer_region_options_t>() as u32,
            access: self.access.0,
            kind: self.kind,
            flags: if self.huge_pages { sys::XFER_REGION_HUGE_PAGES } else { 0 },
            name: name.as_ref().map_or(null(), |name| name.as_ptr()),
            blob: if self.blob.is_empty() { null() } else { self.blob.as_ptr().cast() },
            blob_length: self.blob.len() as u64,
            numa_node: self.numa_node.map_or(Ok(0), behind)?,
            ..Default::default()
        };
        Ok((raw, name))
    }
}

/// What a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionInfo {
    /// Where it begins.
    pub address: u64,
    /// In bytes.
    pub length: u64,
    /// Unique in the engine, never used again.
    pub id: u64,
    /// Of its refs.
    pub generation: u32,
    /// What all peers may do.
    pub access: Access,
    /// What the driver said, `sys::XFER_MEM_*`.
    pub kind: u32,
}

/// Memory that peers may use. Dropped, it is closed; the memory stays alive until it is quiet.
///
/// Of memory that the library has allocated the region ends when nobody has the memory any more.
pub struct Region {
    pub(crate) handle: Arc<Handle<sys::xfer_region_t>>,
    pub(crate) engine: Engine,
    memory: Memory,
    allocated: bool,
    closed: Option<Operation<Memory>>,
}

impl Engine {
    /// Lends memory to peers, from now until the region is closed or dropped. The memory is shared:
    /// clones of it, and [`Region::memory`], are for this program meanwhile.
    ///
    /// # Errors
    /// `EEXIST` if the name is another region's; `EINVAL` of no bytes, and with atomics of a start
    /// that is not divisible by 8; `ETOOBIG` of too many regions; `EMEMKIND` if the hint is wrong or
    /// no transport serves that kind; `ERANGE`, `ENOMEM`, `ECLOSED`.
    pub fn region(&self, memory: impl Into<Memory>, options: &RegionOptions) -> Result<Region> {
        let memory = memory.into();
        let (mut options, _name) = options.raw()?;
        let (start, length) = (memory.as_ptr().cast(), memory.len() as u64);
        let (lent, mut raw) = (Box::new(memory.clone()), null_mut());
        let closed = Operation::begin(
            &self.inner,
            0,
            lent,
            |_, memory| memory,
            |word, detail| {
                options.user = word;
                let engine = self.inner.raw;
                // SAFETY: the memory is lent until the region's CLOSED; the rest is live.
                unsafe { sys::xfer_region_open(engine, &options, start, length, &mut raw, detail) }
            },
        )
        .accepted()?;
        // SAFETY: the handle was just opened.
        let handle = Arc::new(unsafe { Handle::new(raw, sys::xfer_region_close) });
        let (engine, closed) = (self.clone(), Some(closed));
        Ok(Region { handle, engine, memory, allocated: false, closed })
    }

    /// The same with so many zeros of the library's, which local peers map. They may map all of it
    /// even if only a part was granted to them.
    ///
    /// # Errors
    /// As [`region`](Self::region); `ENOFILES`, `EIO`.
    pub fn region_alloc(&self, length: usize, options: &RegionOptions) -> Result<Region> {
        let (mut options, _name) = options.raw()?;
        let (mut raw, mut start) = (null_mut(), null_mut());
        let closed = Operation::begin(
            &self.inner,
            0,
            Box::new(()),
            |_, ()| Memory::zeroed(0),
            |word, detail| {
                options.user = word;
                let (engine, length) = (self.inner.raw, length as u64);
                // SAFETY: all are live during the call.
                unsafe {
                    let (start, raw) = (&mut start, &mut raw);
                    sys::xfer_region_alloc(engine, &options, length, start, raw, detail)
                }
            },
        )
        .accepted()?;
        // SAFETY: the handle was just opened, and its memory lives until it is closed.
        let (handle, memory) = unsafe {
            let handle = Arc::new(Handle::new(raw, sys::xfer_region_close));
            (handle.clone(), Memory::of_other(start.cast(), length, handle))
        };
        let (engine, closed) = (self.clone(), Some(closed));
        Ok(Region { handle, engine, memory, allocated: true, closed })
    }
}

impl Region {
    /// What it lends.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The ref of the whole region, to be sent to peers by other means.
    ///
    /// # Errors
    /// `EACCESS` if it is for local use only, `ECLOSED`.
    pub fn name(&self) -> Result<Ref> {
        let mut name = sys::xfer_ref_t::default();
        // SAFETY: both are live during the call.
        let status = self.handle.call(|raw| unsafe { sys::xfer_region_ref(raw, &mut name) });
        Error::check(status).map(|()| Ref::from_bytes(name.bytes))
    }

    /// What it is.
    ///
    /// # Errors
    /// `EFORKED`.
    pub fn info(&self) -> Result<RegionInfo> {
        let mut info = sys::xfer_region_info_t::default();
        let size = size_of::<sys::xfer_region_info_t>() as u32;
        // SAFETY: `info` has room for `size` bytes.
        let status = self.handle.call(|raw| unsafe { sys::xfer_region_info(raw, &mut info, size) });
        Error::check(status)?;
        Ok(RegionInfo {
            address: info.address,
            length: info.length,
            id: info.id,
            generation: info.generation,
            access: Access(info.access),
            kind: info.kind,
        })
    }

    /// Takes the memory back: refs of it are stale at once, and it comes when nobody uses it any
    /// more. Of memory that the library has allocated nothing is left.
    ///
    /// ```compile_fail,E0382
    /// # fn example(region: xfer::Region) {
    /// drop(region.close());
    /// region.name(); // a region that was closed is gone
    /// # }
    /// ```
    pub fn close(mut self) -> Operation<Memory> {
        self.closed.take().expect("a region is closed once") // the rest is the drop's
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Some(closed) = self.closed.take() {
            closed.detach();
        }
        if !self.allocated {
            self.handle.close(); // else its memory's last owner does
        }
    }
}
