// SPDX-License-Identifier: Apache-2.0

use crate::batch::{address, outside, reach, Batch, Op};
use crate::buffer::Number;
use crate::memory::Memory;
use crate::reference::Ref;
use crate::{Error, Result, Status};
use std::mem::size_of;
use xfer_sys as sys;

mod sealed {
    pub trait Sealed {}
}

/// The types of page numbers, 4 or 8 bytes long. They are unsigned to the library: a negative one is
/// `ERANGE`.
pub trait PageNumber: Number + sealed::Sealed {
    #[doc(hidden)]
    fn number(self) -> u64;
}

macro_rules! page_numbers {
    ($($type:ty as $unsigned:ty),+) => {$(
        impl sealed::Sealed for $type {}
        impl PageNumber for $type {
            #[allow(clippy::cast_sign_loss)] // the library takes them so
            fn number(self) -> u64 {
                u64::from(self as $unsigned)
            }
        }
    )+};
}
page_numbers!(i32 as u32, u32 as u32, i64 as u64, u64 as u64);

/// One pair of bases that a page table applies to, such as one layer of a KV cache.
#[derive(Clone)]
pub struct PageBase<'a> {
    /// What has the local pages.
    pub memory: &'a Memory,
    /// Of local page 0 in it.
    pub local: u64,
    /// What has the remote pages.
    pub remote: &'a Ref,
    /// Of remote page 0 in it.
    pub offset: u64,
}

/// For every base and every `i`: local page `local_pages[i]` and remote page `remote_pages[i]`.
///
/// A page is `rows` blocks of `length` bytes. Where they lie may differ between the two sides. Base
/// b, page i is entry b * count + i.
#[derive(Clone)]
pub struct Pages<'a, N> {
    /// Bytes of each row, not 0.
    pub length: u64,
    /// The tables, equally long.
    pub local_pages: &'a [N],
    /// The same of the peer.
    pub remote_pages: &'a [N],
    /// What they apply to.
    pub bases: &'a [PageBase<'a>],
    /// From page n to page n + 1; `None`: rows times the row stride.
    pub local_stride: Option<u64>,
    /// The same of the peer.
    pub remote_stride: Option<u64>,
    /// Of each page.
    pub rows: u64,
    /// From row to row; `None`: `length`.
    pub local_row_stride: Option<u64>,
    /// The same of the peer.
    pub remote_row_stride: Option<u64>,
}

impl<'a, N: PageNumber> Pages<'a, N> {
    /// Pages of one row, one behind the other on both sides.
    pub fn new(length: u64, local: &'a [N], remote: &'a [N], bases: &'a [PageBase<'a>]) -> Self {
        Pages {
            length,
            local_pages: local,
            remote_pages: remote,
            bases,
            local_stride: None,
            remote_stride: None,
            rows: 1,
            local_row_stride: None,
            remote_row_stride: None,
        }
    }

    /// How many bytes from a base's first page on are used here; `None` if that wraps.
    fn local_reach(&self) -> Option<u64> {
        let Some(last) = self.local_pages.iter().map(|page| page.number()).max() else {
            return Some(0);
        };
        let rows = self.rows.max(1);
        let row_stride = self.local_row_stride.unwrap_or(self.length);
        let stride = match self.local_stride {
            Some(stride) => stride,
            None => rows.checked_mul(row_stride)?,
        };
        reach(last.checked_add(1)?, stride, reach(rows, row_stride, self.length)?)
    }
}

impl Batch {
    /// Adds the pages of a page table, for one or many pairs of bases.
    ///
    /// # Errors
    /// As [`put`](Self::put); `EINVAL` if the tables differ in length. Then nothing was added.
    pub fn pages<N: PageNumber>(&mut self, op: Op, pages: &Pages<'_, N>) -> Result<()> {
        if pages.local_pages.len() != pages.remote_pages.len() {
            return Err(Error::with_text(Status::EINVAL, "the two page tables differ in length"));
        }
        if [
            pages.local_stride,
            pages.remote_stride,
            pages.local_row_stride,
            pages.remote_row_stride,
        ]
        .contains(&Some(0))
        {
            return Err(Error::with_text(Status::EINVAL, "a stride is 0"));
        }
        let reach = pages.local_reach().ok_or_else(|| outside("the memory"))?;
        let remotes: Vec<_> = pages.bases.iter().map(|base| base.remote.raw()).collect();
        let raw_base = |(base, remote): (&PageBase<'_>, &sys::xfer_ref_t)| {
            let local = address(base.memory, base.local, reach)?;
            Ok(sys::xfer_page_base_t { local, remote, offset: base.offset })
        };
        let bases: Vec<_> =
            pages.bases.iter().zip(&remotes).map(raw_base).collect::<Result<_>>()?;
        let raw_pages = sys::xfer_pages_t {
            size: size_of::<sys::xfer_pages_t>() as u32,
            base_size: size_of::<sys::xfer_page_base_t>() as u32,
            index_size: size_of::<N>() as u32,
            length: pages.length,
            local_stride: pages.local_stride.unwrap_or(0),
            remote_stride: pages.remote_stride.unwrap_or(0),
            count: pages.local_pages.len() as u64,
            local_pages: pages.local_pages.as_ptr().cast(),
            remote_pages: pages.remote_pages.as_ptr().cast(),
            bases: bases.as_ptr(),
            base_count: bases.len() as u64,
            rows: pages.rows,
            local_row_stride: pages.local_row_stride.unwrap_or(0),
            remote_row_stride: pages.remote_row_stride.unwrap_or(0),
            ..Default::default()
        };
        let mut detail = sys::xfer_error_t::default();
        // SAFETY: all are live during the call, and the memory is kept with the batch.
        let status = self.filled.handle.call(|raw| unsafe {
            sys::xfer_batch_add_pages(raw, op.raw(), &raw_pages, &mut detail)
        });
        Error::detailed(status, &detail)?;
        pages.bases.iter().for_each(|base| self.filled.keep(base.memory));
        self.filled.count(raw_pages.count * raw_pages.base_count);
        Ok(())
    }
}
