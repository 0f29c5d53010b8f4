// SPDX-License-Identifier: Apache-2.0

use crate::buffer::Lend;
use crate::handle::Handle;
use crate::memory::{Memory, Slice};
use crate::operation::{End, Operation};
use crate::reference::Ref;
use crate::stream::{OnStream, StreamResult};
use crate::{Endpoint, Error, Result, Status};
use std::ffi::c_void;
use std::mem::size_of;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use xfer_sys as sys;

/// Which way the bytes of entries move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// To the peer.
    Put,
    /// From the peer.
    Get,
}

impl Op {
    pub(crate) fn raw(self) -> u32 {
        match self {
            Op::Put => sys::XFER_OP_PUT,
            Op::Get => sys::XFER_OP_GET,
        }
    }
}

/// One block of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it begins in the memory, in bytes.
    pub local: u64,
    /// Where it begins in what the ref names, in bytes.
    pub offset: u64,
    /// In bytes.
    pub length: u64,
}

/// Equal blocks at equal distances; all are in bytes but `count`.
#[derive(Clone)]
pub struct Strided<'a> {
    /// Where the local blocks are.
    pub memory: &'a Memory,
    /// Of the first block in it.
    pub local: u64,
    /// From one local block to the next.
    pub local_stride: u64,
    /// Where the remote blocks are.
    pub remote: &'a Ref,
    /// Of the first block in it.
    pub offset: u64,
    /// From one remote block to the next.
    pub remote_stride: u64,
    /// Of each block.
    pub length: u64,
    /// How many.
    pub count: u64,
}

/// How a batch is submitted.
#[derive(Clone, Copy, Default, Debug)]
pub struct Submit<'a> {
    /// Tells the owner's application, with a key and at most 1,024 bytes: once all data were
    /// applied, or why the batch failed.
    pub notify: Option<(u64, &'a [u8])>,
    /// Begins when all that was submitted on its endpoint before has ended; what is submitted later
    /// does not wait for it, unless that is ordered too.
    pub ordered: bool,
    /// A CRC-32C goes with every payload that goes over a network; one that is wrong is `ECHECKSUM`.
    pub checksum: bool,
}

/// How far a batch is, of the submit under way or else the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchInfo {
    /// It is under way.
    pub in_flight: bool,
    /// With which it ended; OK while it is under way.
    pub status: Status,
    /// How many it had then.
    pub entries: u64,
    /// Bytes known to have moved.
    pub bytes: u64,
    /// The index of the first entry that failed, if `status` is an error.
    pub first_failed: u64,
}

/// The library's part of a batch, and its memory. Of the engine it holds nothing.
pub(crate) struct Filled {
    pub handle: Arc<Handle<sys::xfer_batch_t>>,
    pub lent: Vec<Memory>,
    entries: u64,
    on_stream: Arc<OnStream>,
}

impl Filled {
    /// Keeps `memory` if the call has added what names it.
    pub fn added(&mut self, status: i32, memory: &Memory, count: u64) -> Result<()> {
        Error::check(status)?;
        self.entries += count;
        self.keep(memory);
        Ok(())
    }

    pub fn keep(&mut self, memory: &Memory) {
        if !self.lent.iter().rev().take(8).any(|kept| kept.same(memory)) {
            self.lent.push(memory.clone());
        }
    }

    pub fn count(&mut self, entries: u64) {
        self.entries += entries;
    }
}

/// The address of `offset` in `memory`, of which `length` bytes are used.
pub(crate) fn address(memory: &Memory, offset: u64, length: u64) -> Result<u64> {
    let end = offset.checked_add(length).filter(|end| *end <= memory.len() as u64);
    end.map(|_| memory.as_ptr() as u64 + offset).ok_or_else(|| outside("the memory"))
}

pub(crate) fn outside(of: &str) -> Error {
    Error::with_text(Status::ERANGE, format!("a block is outside of {of}"))
}

/// The bytes from the first of `count` blocks to the end of the last; `None` if they wrap.
pub(crate) fn reach(count: u64, stride: u64, length: u64) -> Option<u64> {
    match count {
        0 => Some(0),
        count => (count - 1).checked_mul(stride)?.checked_add(length),
    }
}

/// Puts and gets with one peer that are submitted together, as often as wanted. It holds the memory
/// of its entries until [`reset`](Self::reset) or its drop; one thread at a time has it.
///
/// Under way it is with its operation, and comes back with the result:
///
/// ```compile_fail,E0382
/// # fn example(mut batch: xfer::Batch, name: xfer::Ref, memory: xfer::Memory) {
/// let operation = batch.submit(&xfer::Submit::default());
/// batch.put(&memory.whole(), &name, 0); // in flight
/// # }
/// ```
pub struct Batch {
    endpoint: Endpoint,
    pub(crate) filled: Filled,
}

/// Looks at a batch, also while it is under way; and between two runs of a graph, rebinds it.
#[derive(Clone)]
pub struct BatchWatch {
    _endpoint: Endpoint,
    handle: Arc<Handle<sys::xfer_batch_t>>,
    on_stream: Arc<OnStream>,
}

impl Endpoint {
    /// An empty batch.
    ///
    /// # Errors
    /// `ECLOSED`, `ENOMEM`.
    pub fn batch(&self) -> Result<Batch> {
        let (mut raw, mut detail) = (null_mut(), sys::xfer_error_t::default());
        // SAFETY: all are live during the call.
        let status = self
            .handle()
            .call(|ep| unsafe { sys::xfer_batch_open(ep, null(), &mut raw, &mut detail) });
        Error::detailed(status, &detail)?;
        // SAFETY: the handle was just opened.
        let handle = Arc::new(unsafe { Handle::new(raw, sys::xfer_batch_close) });
        let on_stream = Arc::default();
        let filled = Filled { handle, lent: Vec::new(), entries: 0, on_stream };
        Ok(Batch { endpoint: self.clone(), filled })
    }
}

impl Batch {
    /// Adds one put.
    ///
    /// # Errors
    /// `ERANGE` outside of what `remote` names, `EACCESS` if that does not allow it, `ETOOBIG` of
    /// too many entries or refs; `EVERSION`, `EMEMKIND`, `EIDENTITY`, `EINVAL`, `ECLOSED`.
    pub fn put(&mut self, local: &Slice, remote: &Ref, offset: u64) -> Result<()> {
        let (start, length, remote) = (local.start().cast(), local.len() as u64, remote.raw());
        // SAFETY: the memory is kept with the batch.
        let status = self
            .filled
            .handle
            .call(|raw| unsafe { sys::xfer_batch_put(raw, start, &remote, offset, length) });
        self.filled.added(status, local.memory(), 1)
    }

    /// Adds one get.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn get(&mut self, local: &Slice, remote: &Ref, offset: u64) -> Result<()> {
        let (length, remote) = (local.len() as u64, remote.raw());
        let start = local.start().cast_mut().cast();
        // SAFETY: the memory is kept with the batch.
        let status = self
            .filled
            .handle
            .call(|raw| unsafe { sys::xfer_batch_get(raw, start, &remote, offset, length) });
        self.filled.added(status, local.memory(), 1)
    }

    /// Adds spans of one ref; each is an entry.
    ///
    /// # Errors
    /// As [`put`](Self::put); then nothing was added, and the text says which span is wrong.
    pub fn spans(&mut self, op: Op, memory: &Memory, remote: &Ref, spans: &[Span]) -> Result<()> {
        let raw_span = |span: &Span| {
            let local = address(memory, span.local, span.length)?;
            Ok(sys::xfer_span_t { local, offset: span.offset, length: span.length })
        };
        let spans: Vec<_> = spans.iter().map(raw_span).collect::<Result<_>>()?;
        let (remote, size) = (remote.raw(), size_of::<sys::xfer_span_t>() as u32);
        let (start, count) = (spans.as_ptr(), spans.len() as u64);
        let mut detail = sys::xfer_error_t::default();
        // SAFETY: all are live during the call, and the memory is kept with the batch.
        let status = self.filled.handle.call(|raw| unsafe {
            sys::xfer_batch_add_spans(raw, op.raw(), &remote, start, size, count, &mut detail)
        });
        Error::detailed(status, &detail)?;
        self.filled.added(status, memory, count)
    }

    /// Adds equal blocks; each is an entry.
    ///
    /// # Errors
    /// As [`put`](Self::put); then nothing was added.
    pub fn strided(&mut self, op: Op, blocks: &Strided<'_>) -> Result<()> {
        let reach = reach(blocks.count, blocks.local_stride, blocks.length);
        let reach = reach.ok_or_else(|| outside("the memory"))?;
        let remote = blocks.remote.raw();
        let raw_blocks = sys::xfer_strided_t {
            size: size_of::<sys::xfer_strided_t>() as u32,
            local: address(blocks.memory, blocks.local, reach)?,
            local_stride: blocks.local_stride,
            remote: &remote,
            offset: blocks.offset,
            remote_stride: blocks.remote_stride,
            length: blocks.length,
            count: blocks.count,
            ..Default::default()
        };
        let mut detail = sys::xfer_error_t::default();
        // SAFETY: all are live during the call, and the memory is kept with the batch.
        let status = self.filled.handle.call(|raw| unsafe {
            sys::xfer_batch_add_strided(raw, op.raw(), &raw_blocks, &mut detail)
        });
        Error::detailed(status, &detail)?;
        self.filled.added(status, blocks.memory, blocks.count)
    }

    /// Replaces the ref `from` by `to` in all entries, as after the owner's restart.
    ///
    /// # Errors
    /// `ENOTFOUND` if nothing names `from`; `ERANGE` if `to` is shorter, `EACCESS` if it allows
    /// less; `EINVAL`, `EVERSION`, `EIDENTITY`.
    pub fn rebind(&mut self, from: &Ref, to: &Ref) -> Result<()> {
        rebind(&self.filled.handle, from, to)
    }

    /// How many entries it has.
    pub fn len(&self) -> u64 {
        self.filled.entries
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.filled.entries == 0
    }

    /// Empties it, so that others can be added.
    ///
    /// # Errors
    /// `EFORKED`.
    pub fn reset(&mut self) -> Result<()> {
        // SAFETY: the handle is live.
        Error::check(self.filled.handle.call(|raw| unsafe { sys::xfer_batch_reset(raw) }))?;
        self.filled.lent.clear();
        self.filled.entries = 0;
        Ok(())
    }

    /// The status of each entry in the last submit, and of none that was added since; `ECANCELED` of
    /// those that were not attempted.
    ///
    /// # Errors
    /// `EINVAL` if it was not submitted, or was emptied since.
    pub fn entries(&self) -> Result<Vec<Status>> {
        entries(&self.filled.handle)
    }

    /// Looks at it, also while it is under way.
    pub fn watch(&self) -> BatchWatch {
        BatchWatch {
            _endpoint: self.endpoint.clone(),
            handle: self.filled.handle.clone(),
            on_stream: self.filled.on_stream.clone(),
        }
    }

    /// Starts it. It comes back with the number of bytes.
    ///
    /// Errors: the first that failed, which [`entry`](Error::entry) names; `EAGAIN`, `ECLOSED`,
    /// `ETOOBIG`.
    pub fn submit(self, how: &Submit<'_>) -> Operation<(Result<u64>, Batch)> {
        let on_stream = self.filled.on_stream.clone();
        self.begin(how, |raw, word, options, _| {
            // SAFETY: handle and memory are lent until the event.
            let status = unsafe { sys::xfer_batch_submit(raw, word, options) };
            if status == sys::XFER_OK {
                on_stream.clear();
            }
            status
        })
    }

    /// Puts it into a stream of CUDA (`CUstream`, `cudaStream_t`), and returns: it begins when all
    /// that is in the stream so far is done, and what comes into the stream from here on waits for
    /// its end, without a thread that waits. NULL is the legacy default stream of the context that is
    /// current. It comes back as from [`submit`](Self::submit).
    ///
    /// The stream goes on however it ends; [`BatchWatch::stream_result`] says how, also to kernels. A
    /// deadline counts from the begin. The operation dropped, the batch ends early, begun or not, and
    /// the stream passes. Without I/O threads nothing moves while the thread that takes the events
    /// waits for the stream.
    ///
    /// A stream that captures records it, and nothing begins: each launch of the graph moves the bytes
    /// again, with the same options. The operation ends well when the last graph and instance that have
    /// it are destroyed, also if runs have failed. Between two runs it may be
    /// [rebound](BatchWatch::rebind) meanwhile. The operation dropped or canceled, the launches to come
    /// pass without it.
    ///
    /// Errors: as [`submit`](Self::submit), without `EAGAIN`; `EUNSUPPORTED` if it is ordered, or
    /// without a driver of CUDA 11.7; `EIO` if the driver refuses.
    ///
    /// # Safety
    /// During the call `stream` is NULL, a default stream's handle, or a live stream of this process.
    /// Between the begin and the end of a run no other stream writes what it puts, or touches what it
    /// gets: the memory of all entries is borrowed until the event. What is ahead of it in the stream is
    /// over by the begin. What is behind it begins after the end, or, where the result is not `fenced`,
    /// beside copies that have not ended. In graphs it is at one place of one, of which one instance
    /// runs at a time, and no instance that has it is updated (`cuGraphExecUpdate`).
    pub unsafe fn submit_on(
        self,
        stream: *mut c_void,
        how: &Submit<'_>,
    ) -> Operation<(Result<u64>, Batch)> {
        let on_stream = self.filled.on_stream.clone();
        self.begin(how, |raw, word, options, detail| {
            on_stream.replace(|result| {
                // SAFETY: handle and memory are lent until the event; the stream is as the caller says.
                unsafe { sys::xfer_cuda_submit(raw, stream, word, options, result, detail) }
            })
        })
    }

    fn begin(
        self,
        how: &Submit<'_>,
        submit: impl FnOnce(
            *mut sys::xfer_batch_t,
            u64,
            &sys::xfer_submit_options_t,
            &mut sys::xfer_error_t,
        ) -> sys::xfer_status_t,
    ) -> Operation<(Result<u64>, Batch)> {
        let call = self.endpoint.call;
        let mut options = sys::xfer_submit_options_t {
            size: size_of::<sys::xfer_submit_options_t>() as u32,
            timeout_ms: call.timeout_ms,
            trace: call.trace,
            ..Default::default()
        };
        if let Some((key, data)) = how.notify {
            options.flags |= sys::XFER_SUBMIT_NOTIFY;
            options.notify_key = key;
            options.notify_data = data.as_ptr().cast();
            options.notify_length = data.len() as u64;
        }
        if how.ordered {
            options.flags |= sys::XFER_SUBMIT_ORDERED;
        }
        if how.checksum {
            options.flags |= sys::XFER_SUBMIT_CHECKSUM;
        }
        let Batch { endpoint, filled } = self;
        let (engine, handle) = (endpoint.engine().clone(), filled.handle.clone());
        let finish =
            |end: End, filled| (end.result().map(|()| end.bytes), Batch { endpoint, filled });
        Operation::begin(&engine, call.group, Box::new(filled), finish, |word, detail| {
            handle.call(|raw| submit(raw, word, &options, detail))
        })
    }
}

impl BatchWatch {
    /// How far it is.
    ///
    /// # Errors
    /// `EFORKED`.
    pub fn info(&self) -> Result<BatchInfo> {
        info(&self.handle)
    }

    /// What has become of it on its stream, since the last submit. Read beside a run, fields may be of
    /// two.
    ///
    /// # Errors
    /// `EINVAL` if that was on no stream.
    pub fn stream_result(&self) -> Result<StreamResult> {
        self.on_stream.read().ok_or_else(|| Error::of(sys::XFER_EINVAL))
    }

    /// As [`Batch::rebind`], also between two runs of a graph.
    ///
    /// # Errors
    /// As there; `EBUSY` while it runs, is under way otherwise, or another call has it.
    pub fn rebind(&self, from: &Ref, to: &Ref) -> Result<()> {
        rebind(&self.handle, from, to)
    }

    /// As [`Batch::entries`], also between two runs of a graph.
    ///
    /// # Errors
    /// As there; `EBUSY` while it runs, is under way otherwise, or another call has it.
    pub fn entries(&self) -> Result<Vec<Status>> {
        entries(&self.handle)
    }
}

fn rebind(handle: &Handle<sys::xfer_batch_t>, from: &Ref, to: &Ref) -> Result<()> {
    let (from, to, mut detail) = (from.raw(), to.raw(), sys::xfer_error_t::default());
    // SAFETY: all are live during the call.
    let status = handle.call(|raw| unsafe { sys::xfer_batch_rebind(raw, &from, &to, &mut detail) });
    Error::detailed(status, &detail)
}

fn entries(handle: &Handle<sys::xfer_batch_t>) -> Result<Vec<Status>> {
    let mut statuses = vec![0; info(handle)?.entries as usize];
    let (start, count) = (statuses.as_mut_ptr(), statuses.len() as u64);
    // SAFETY: there is room for as many.
    let status = handle.call(|raw| unsafe { sys::xfer_batch_entries(raw, 0, count, start) });
    Error::check(status)?;
    Ok(statuses.into_iter().map(Status).collect())
}

fn info(handle: &Handle<sys::xfer_batch_t>) -> Result<BatchInfo> {
    let mut info = sys::xfer_batch_info_t::default();
    let size = size_of::<sys::xfer_batch_info_t>() as u32;
    // SAFETY: `info` has room for `size` bytes.
    let status = handle.call(|raw| unsafe { sys::xfer_batch_info(raw, &mut info, size) });
    Error::check(status)?;
    Ok(BatchInfo {
        in_flight: info.state == sys::XFER_BATCH_INFLIGHT,
        status: Status(info.status),
        entries: info.entries,
        bytes: info.bytes,
        first_failed: info.first_failed,
    })
}
