// SPDX-License-Identifier: Apache-2.0

use crate::buffer::{Lend, LendMut, Own};
use std::any::Any;
use std::ops::Range;
use std::ptr::copy_nonoverlapping;
use std::sync::{Arc, PoisonError, RwLock};

/// Memory that several share: regions, batches and operations use it, and peers may, at any time.
///
/// So bytes are copied in and out, and no reference to them is given. Clones are the same memory; it
/// lives until the last of them, of its slices, and of what they were lent to is over. It may be
/// [a device's](Self::of_device).
#[derive(Clone)]
pub struct Memory(Arc<Storage>);

struct Storage {
    start: *mut u8,
    length: usize,
    copying: RwLock<()>, // keeps this program's writes apart from its reads
    device: bool,        // the CPU may be unable to touch it
    owner: Owner,
}

enum Owner {
    Given(Box<dyn Any + Send>),
    #[allow(dead_code)] // it is kept for its drop
    Other(Arc<dyn Any + Send + Sync>),
}

// SAFETY: the bytes are reached by copies under the lock alone, and the owner by its drop alone.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Memory {
    /// So many zeros, aligned for atomics.
    pub fn zeroed(length: usize) -> Self {
        let mut memory = Self::of(vec![0u64; length.div_ceil(8)]);
        Arc::get_mut(&mut memory.0).expect("nobody else has it yet").length = length;
        memory
    }

    /// The memory of `buffer`, which [`into_inner`](Self::into_inner) gives back.
    pub fn of<B: Own>(buffer: B) -> Self {
        let mut buffer = Box::new(buffer);
        let (start, length) = (buffer.start_mut(), buffer.length());
        Self::owned(start, length, false, Owner::Given(buffer))
    }

    /// The `length` bytes at `address` in the memory of a device, a `CUdeviceptr`. The library asks
    /// the driver what kind of memory it is, so an address of host memory is as good.
    ///
    /// `owner` is dropped when nobody uses the memory any more, or given back by
    /// [`into_inner`](Self::into_inner): what frees the memory in its drop, or `()`.
    ///
    /// What streams write is complete before a put or a send of it begins, and streams that touch it
    /// are over before a get or a receive begins; a batch that is
    /// [submitted on a stream](crate::Batch::submit_on) has its place in that. While it is lent as a
    /// region, streams leave alone what peers use.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use xfer::{Endpoint, Memory, Ref, Result};
    ///
    /// /// A KV cache of a device, which its drop frees.
    /// struct Cache {
    ///     start: u64,
    ///     block: usize,
    ///     blocks: usize,
    /// }
    ///
    /// async fn put(peer: &Endpoint, cache: &Arc<Cache>, at: usize, to: &Ref) -> Result<u64> {
    ///     assert!(at < cache.blocks);
    ///     let start = cache.start + (at * cache.block) as u64;
    ///     // SAFETY: the cache has that block, and is freed behind the put; its kernels are over.
    ///     let block = unsafe { Memory::of_device(start, cache.block, cache.clone()) };
    ///     peer.put(block.whole(), to, 0).await.0
    /// }
    /// ```
    ///
    /// The owner is dropped by whichever thread takes the events of the engine. One that frees memory
    /// of the device may wait for a kernel there, and all events with it: then take it back by
    /// `into_inner`, and free it elsewhere.
    ///
    /// # Safety
    /// From `address` on there are `length` bytes, without wrapping around, which may be read and
    /// written; those of host memory are initialized. They stay allocated until `owner` is dropped or
    /// given back; of `()`, until [`into_inner`](Self::into_inner) has given it back, or the engine has
    /// ended: an operation that is dropped uses them until its event. Meanwhile no reference of Rust's
    /// leads to them.
    pub unsafe fn of_device<O: Any + Send>(address: u64, length: usize, owner: O) -> Self {
        Self::owned(address as *mut u8, length, true, Owner::Given(Box::new(owner)))
    }

    /// # Safety
    /// The memory lives as long as `owner`.
    pub(crate) unsafe fn of_other(
        start: *mut u8,
        length: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self::owned(start, length, false, Owner::Other(owner))
    }

    fn owned(start: *mut u8, length: usize, device: bool, owner: Owner) -> Self {
        Memory(Arc::new(Storage { start, length, copying: RwLock::new(()), device, owner }))
    }

    /// The buffer that it was made of, or the owner of a device's memory, if nobody else has the
    /// memory and that is its type.
    ///
    /// # Errors
    /// Gives the memory back.
    pub fn into_inner<B: Any>(self) -> Result<B, Self> {
        match &self.0.owner {
            Owner::Given(owner) if owner.is::<B>() => {}
            _ => return Err(self),
        }
        let storage = Arc::try_unwrap(self.0).map_err(Memory)?;
        match storage.owner {
            Owner::Given(owner) => Ok(*owner.downcast().expect("its type was looked at")),
            Owner::Other(_) => unreachable!("it was given"),
        }
    }

    /// In bytes.
    pub fn len(&self) -> usize {
        self.0.length
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it was made by [`of_device`](Self::of_device), so that its bytes are not to be copied
    /// here.
    pub fn is_device(&self) -> bool {
        self.0.device
    }

    /// Where it begins; a peer may be writing there at any time.
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.start
    }

    /// Whether both are the same memory.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn at(&self, offset: usize, length: usize) -> *mut u8 {
        let inside = offset <= self.len() && length <= self.len() - offset;
        assert!(inside, "{length} bytes at {offset} are outside of {}", self.len());
        self.0.start.wrapping_add(offset) // Rust need not know of what is there
    }

    /// The same, for the CPU.
    fn touchable(&self, offset: usize, length: usize) -> *mut u8 {
        assert!(!self.0.device, "the memory is a device's, of which the CPU copies nothing");
        self.at(offset, length)
    }

    /// Copies what is there now. What a peer is writing meanwhile may be seen in part; of this
    /// program each write is seen whole or not at all. Any thread may call.
    ///
    /// # Panics
    /// If that is outside, or the memory is a device's.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let from = self.touchable(offset, into.len());
        let _copying = self.0.copying.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `from` has as many bytes, which no slice of Rust's overlaps.
        unsafe { copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
    }

    /// Copies `bytes` there. Any thread may call.
    ///
    /// # Panics
    /// If that is outside, or the memory is a device's.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.touchable(offset, bytes.len());
        let _copying = self.0.copying.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `to` has as many bytes, which no slice of Rust's overlaps.
        unsafe { copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    /// A part of it.
    ///
    /// # Panics
    /// If that is outside.
    pub fn slice(&self, range: Range<usize>) -> Slice {
        assert!(range.start <= range.end, "{range:?} ends before it begins");
        let (offset, length) = (range.start, range.end - range.start);
        self.at(offset, length);
        Slice { memory: self.clone(), offset, length }
    }

    /// All of it.
    pub fn whole(&self) -> Slice {
        self.slice(0..self.len())
    }
}

impl<B: Own> From<B> for Memory {
    fn from(buffer: B) -> Self {
        Self::of(buffer)
    }
}

/// A part of a [`Memory`], to be lent to an operation.
#[derive(Clone)]
pub struct Slice {
    memory: Memory,
    offset: usize,
    length: usize,
}

impl Slice {
    /// What it is a part of.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// In bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// A copy of what is there now.
    ///
    /// # Panics
    /// If the memory is a device's.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        self.memory.read(self.offset, &mut bytes);
        bytes
    }
}

// SAFETY: a Slice holds its memory, and is inside of it.
unsafe impl Lend for Slice {
    fn start(&self) -> *const u8 {
        self.memory.at(self.offset, self.length)
    }
    fn length(&self) -> usize {
        self.length
    }
}

// SAFETY: of that memory nobody has a reference.
unsafe impl LendMut for Slice {
    fn start_mut(&mut self) -> *mut u8 {
        self.memory.at(self.offset, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::Memory;

    #[test]
    fn a_buffer_comes_back_when_nobody_else_has_it() {
        let memory = Memory::of(vec![1u8, 2, 3]);
        memory.write(1, &[7]);
        let part = memory.slice(1..3);
        let memory = memory.into_inner::<Vec<u8>>().err().unwrap();
        assert_eq!(part.to_vec(), [7, 3]);
        drop(part);
        let memory = memory.into_inner::<Vec<u16>>().err().unwrap();
        assert_eq!(memory.into_inner::<Vec<u8>>().ok().unwrap(), [1, 7, 3]);
    }

    #[test]
    #[should_panic = "outside"]
    fn what_is_outside_is_not_copied() {
        Memory::zeroed(9).write(8, &[0; 2]);
    }
}
