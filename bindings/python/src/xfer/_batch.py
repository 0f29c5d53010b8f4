# SPDX-License-Identifier: Apache-2.0
"""Puts and gets with one peer that are submitted together, as often as wanted."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from xfer import _errors, _streams
from xfer._buffers import Span, readable, writable
from xfer._calls import Calls
from xfer._handle import Freed
from xfer._operation import Operation, bytes_moved, milliseconds, struct
from xfer._values import BatchInfo, Ref, StreamResult
from xfer._xfer import ffi, lib

if TYPE_CHECKING:
    from xfer._endpoint import Endpoint

PUT, GET = lib.XFER_OP_PUT, lib.XFER_OP_GET
INTEGERS = frozenset("iIlLqQ")  # as the struct module names them
NOWHERE = ffi.new("const xfer_cuda_result_t **")


class Batch(Freed):
    """From Endpoint.batch(): filled, submitted, and submitted again.

    The memory of its entries is held for as long as they are in it, and touched only from submit()
    to the end of that submit. Of an array of a device, what its stream has under way is waited for
    when the entry is added, and not again: work that begins on it later must be over before
    submit(), or ahead of it in its stream. Offsets, lengths and strides are in bytes. What would
    reach beyond local memory is refused with XferError (ERANGE), as is what would reach beyond what
    the ref names; a call that is refused has added nothing. While a submit is under way what would
    change the batch raises XferError (EBUSY). One thread at a time, but for cancel() and info.
    """

    def __init__(self, ep: Endpoint, slot: Any) -> None:
        self._ep = ep
        self._lent: list[Any] = []
        self._result = NOWHERE
        calls = Calls(functools.partial(lib.xfer_py_batch_close, slot))
        super().__init__(ep._engine, slot[0], calls, calls.end)

    # ---- entries ----

    def put(self, data: Any, ref: Ref, offset: int = 0) -> None:
        """Adds a put of all of `data`, as one entry. Work that streams begin on it after this must
        be over before submit()."""
        start, length, held = readable(data)
        _errors.check(self._calls(lib.xfer_batch_put, self._raw, start, ref.raw, offset, length))
        self._lent.append(held)

    def get(self, into: Any, ref: Ref, offset: int = 0) -> None:
        """Adds a get of as many bytes as `into` has, as one entry. Work that streams begin on it
        after this must be over before submit()."""
        start, length, held = writable(into)
        _errors.check(self._calls(lib.xfer_batch_get, self._raw, start, ref.raw, offset, length))
        self._lent.append(held)

    def put_spans(self, data: Any, ref: Ref, spans: Iterable[tuple[int, int, int]]) -> None:
        """Adds a put for each (offset in `data`, offset in what the ref names, length)."""
        self._add_spans(PUT, readable(data), ref, spans)

    def get_spans(self, into: Any, ref: Ref, spans: Iterable[tuple[int, int, int]]) -> None:
        """Adds a get for each (offset in `into`, offset in what the ref names, length)."""
        self._add_spans(GET, writable(into), ref, spans)

    def _add_spans(
        self, op: int, memory: Span, ref: Ref, spans: Iterable[tuple[int, int, int]]
    ) -> None:
        base, rows = _address(memory), []
        for local, offset, length in spans:
            _check_inside(memory, local, length)
            rows.append((base + local, offset, length))
        raw, size = ffi.new("xfer_span_t[]", rows), ffi.sizeof("xfer_span_t")
        error = _errors.new_error()
        args = op, ref.raw, raw, size, len(rows), error
        _errors.check(self._calls(lib.xfer_batch_add_spans, self._raw, *args), error)
        self._lent.append(memory.held)

    def put_strided(
        self,
        data: Any,
        ref: Ref,
        *,
        length: int,
        count: int,
        stride: int,
        remote_stride: int,
        start: int = 0,
        offset: int = 0,
    ) -> None:
        """Adds puts of `count` blocks of `length` bytes: the first from `start` in `data` to
        `offset` in what the ref names, each further one its side's stride behind the last."""
        where = length, count, stride, remote_stride, start, offset
        self._add_strided(PUT, readable(data), ref, *where)

    def get_strided(
        self,
        into: Any,
        ref: Ref,
        *,
        length: int,
        count: int,
        stride: int,
        remote_stride: int,
        start: int = 0,
        offset: int = 0,
    ) -> None:
        """As put_strided(), in the other direction."""
        where = length, count, stride, remote_stride, start, offset
        self._add_strided(GET, writable(into), ref, *where)

    def _add_strided(
        self,
        op: int,
        memory: Span,
        ref: Ref,
        length: int,
        count: int,
        stride: int,
        remote_stride: int,
        start: int,
        offset: int,
    ) -> None:
        if count:
            _check_inside(memory, start, (count - 1) * stride + length)
        raw = struct(
            "xfer_strided_t",
            local=_address(memory) + start,
            local_stride=stride,
            remote=ref.raw,
            offset=offset,
            remote_stride=remote_stride,
            length=length,
            count=count,
        )
        error = _errors.new_error()
        _errors.check(self._calls(lib.xfer_batch_add_strided, self._raw, op, raw, error), error)
        self._lent.append(memory.held)

    def put_pages(
        self,
        bases: Sequence[tuple[Any, Ref, int]],
        pages: Any,
        remote_pages: Any,
        length: int,
        *,
        stride: int = 0,
        remote_stride: int = 0,
        rows: int = 1,
        row_stride: int = 0,
        remote_row_stride: int = 0,
    ) -> None:
        """Adds puts of the pages of a page table, for each base: entry b * len(pages) + i is page
        pages[i] of base b, which goes to its page remote_pages[i].

        bases    each (memory whose page 0 is at its start, ref, offset of remote page 0), such as
                 one for each layer of a KV cache
        pages    numbers of 4 or 8 bytes in a C-contiguous buffer, such as a numpy array of int32,
                 which is not copied; both tables alike
        length   bytes of each of the `rows` of a page
        stride   from page to page, default: rows times the row stride; row_stride, default: length;
                 and the same at the peer
        """
        strides = stride, remote_stride, rows, row_stride, remote_row_stride
        self._add_pages(PUT, bases, pages, remote_pages, length, *strides)

    def get_pages(
        self,
        bases: Sequence[tuple[Any, Ref, int]],
        pages: Any,
        remote_pages: Any,
        length: int,
        *,
        stride: int = 0,
        remote_stride: int = 0,
        rows: int = 1,
        row_stride: int = 0,
        remote_row_stride: int = 0,
    ) -> None:
        """As put_pages(), in the other direction."""
        strides = stride, remote_stride, rows, row_stride, remote_row_stride
        self._add_pages(GET, bases, pages, remote_pages, length, *strides)

    def _add_pages(
        self,
        op: int,
        bases: Sequence[tuple[Any, Ref, int]],
        pages: Any,
        remote_pages: Any,
        length: int,
        stride: int,
        remote_stride: int,
        rows: int,
        row_stride: int,
        remote_row_stride: int,
    ) -> None:
        here, count, size = _table(pages)
        there, count_there, size_there = _table(remote_pages)
        if (count, size) != (count_there, size_there):
            raise ValueError("the two page tables differ in length or in the size of a number")
        row = row_stride or length
        page = stride or rows * row
        most = lib.xfer_py_max_page(here, size, count)
        lent = [(writable if op == GET else readable)(memory) for memory, _, _ in bases]
        table = ffi.new("xfer_page_base_t[]", len(bases))
        for entry, memory, (_, ref, offset) in zip(table, lent, bases):
            if count and rows:
                _check_inside(memory, 0, most * page + (rows - 1) * row + length)
            entry.local, entry.remote, entry.offset = _address(memory), ref.raw, offset
        raw = struct(
            "xfer_pages_t",
            base_size=ffi.sizeof("xfer_page_base_t"),
            index_size=size,
            length=length,
            local_stride=stride,
            remote_stride=remote_stride,
            count=count,
            local_pages=here,
            remote_pages=there,
            bases=table,
            base_count=len(bases),
            rows=rows,
            local_row_stride=row_stride,
            remote_row_stride=remote_row_stride,
        )
        error = _errors.new_error()
        _errors.check(self._calls(lib.xfer_batch_add_pages, self._raw, op, raw, error), error)
        self._lent += [memory.held for memory in lent]

    def rebind(self, old: Ref, new: Ref) -> None:
        """Replaces a ref in all entries, as after a restart of its owner. NotFound if nothing
        names the old one."""
        error = _errors.new_error()
        _errors.check(self._calls(lib.xfer_batch_rebind, self._raw, old.raw, new.raw, error), error)

    def reset(self) -> None:
        """Empties the batch, and holds its memory no longer."""
        _errors.check(self._calls(lib.xfer_batch_reset, self._raw))
        self._lent = []

    # ---- submits ----

    def submit(
        self,
        notify: int | None = None,
        data: Any = b"",
        *,
        ordered: bool = False,
        checksum: bool = False,
        timeout: float | None = None,
        group: int = 0,
        stream: Any = None,
    ) -> Operation[int]:
        """Starts it; gives the number of bytes that were moved. Its error has as `index` the first
        entry that failed, statuses() has them all. Without `stream` it waits for none: what streams
        have begun on the memory of its entries since these were added must be over.

        notify    the key of a NOTIFY event that the owner gets, with at most 1024 bytes of `data`,
                  when all was applied, or when the batch has failed
        ordered   begins when all that was submitted on the endpoint before has ended
        checksum  a CRC-32C goes with every payload: XferError (ECHECKSUM)
        stream    of CUDA: it begins when all that is in the stream so far is done, and what comes
                  into the stream from now on waits for its end. A handle (CUstream, cudaStream_t),
                  what has `__cuda_stream__`, or a stream of PyTorch or CuPy; 0, as the default
                  stream of PyTorch has it, is the legacy one of the device that is current

        On a stream it may begin late, and `timeout` counts from then. The stream goes on however it
        ends, and stream_result tells how: where that is not `fenced`, copies may still touch the
        memory of the entries until the operation ends. It can't be `ordered` there: XferError
        (EUNSUPPORTED), as without a driver of CUDA 11.7. With `io_threads="none"` nothing moves
        while the thread that takes the events waits for the stream.

        A stream that captures records it: nothing begins, and each launch of the graph moves the
        bytes again, with the same options. The operation ends well when the last graph and instance
        that have it are destroyed, also if runs have failed, and what it was lent is held until
        then. It is at one place of one graph, of which one instance runs at a time, and no instance
        that has it is updated (cuGraphExecUpdate). To cancel it, or the task that awaits it, has
        the launches to come pass without it. Between two runs rebind() and statuses() may be
        called. Add the entries before the capture, as that may wait for streams.
        """
        options = ffi.NULL
        if notify is not None or ordered or checksum or timeout is not None:
            options = struct("xfer_submit_options_t", timeout_ms=milliseconds(timeout))
            options.flags |= lib.XFER_SUBMIT_ORDERED if ordered else 0
            options.flags |= lib.XFER_SUBMIT_CHECKSUM if checksum else 0
        shown = readable(data)
        if notify is not None:
            options.flags |= lib.XFER_SUBMIT_NOTIFY
            options.notify_key, options.notify_data = notify, shown.start
            options.notify_length = shown.length
        # `_lent` too: after close() the batch does not hold it any more.
        operation = Operation(self, bytes_moved, self._lent, group)
        if stream is not None:
            return self._submit_on(_streams.handle(stream), operation, options)
        operation._begin(self._calls, lib.xfer_batch_submit, self._raw, options=options)
        self._result = NOWHERE
        return operation

    def _submit_on(self, stream: int, operation: Operation[int], options: Any) -> Operation[int]:
        found, error = ffi.new("const xfer_cuda_result_t **"), _errors.new_error()
        args = self._raw, ffi.cast("void *", stream), operation.word, options, found
        operation._call(self._calls, lib.xfer_cuda_submit, *args, error=error)
        self._result = found  # where it is refused, that of the submit before stays
        return operation

    @property
    def stream_result(self) -> StreamResult:
        """What has become of it on its stream, since the last submit; read beside a run, fields may
        be of two. XferError: EINVAL if that was on no stream, ECLOSED."""
        raw = ffi.new("xfer_cuda_result_t *")
        where = self._result[0]
        _errors.check(self._calls(lib.xfer_py_stream_result, where, raw))
        fenced = not raw.flags & lib.XFER_MAYBE_APPLIED
        address = int(ffi.cast("uintptr_t", where))
        return StreamResult(raw.status, fenced, raw.runs, raw.failures, address)

    def cancel(self) -> None:
        """Asks for an early end of the submit. XferError (EINVAL) if none is under way. Any
        thread."""
        _errors.check(self._calls(lib.xfer_batch_cancel, self._raw))

    @property
    def info(self) -> BatchInfo:
        """How far it is. Any thread."""
        raw = ffi.new("xfer_batch_info_t *")
        _errors.check(
            self._calls(lib.xfer_batch_info, self._raw, raw, ffi.sizeof("xfer_batch_info_t"))
        )
        inflight = raw.state == lib.XFER_BATCH_INFLIGHT
        return BatchInfo(inflight, raw.status, raw.entries, raw.bytes, raw.first_failed)

    def statuses(self, first: int = 0, count: int | None = None) -> list[int]:
        """The status of each entry in the last submit; ECANCELED: it was not attempted."""
        count = self.info.entries - first if count is None else count
        statuses = ffi.new("xfer_status_t[]", count)
        _errors.check(self._calls(lib.xfer_batch_entries, self._raw, first, count, statuses))
        return ffi.unpack(statuses, count)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Ends it. A submit that is under way is canceled, and still ends. Twice is once."""
        super().close()
        self._lent = []


def open_batch(ep: Endpoint) -> Batch:
    """Endpoint.batch()."""
    out, error = ffi.new("xfer_batch_t **"), _errors.new_error()
    _errors.check(ep._calls(lib.xfer_batch_open, ep._raw, ffi.NULL, out, error), error)
    return Batch(ep, out)


def _address(memory: Span) -> int:
    return int(ffi.cast("uintptr_t", memory.start))


def _check_inside(memory: Span, start: int, length: int) -> None:
    if start < 0 or length < 0 or start + length > memory.length:
        text = f"{length} bytes at {start} of local memory of {memory.length}"
        raise _errors.of_status(lib.XFER_ERANGE, text)


def _table(pages: Any) -> tuple[Any, int, int]:
    """A page table: where, how many numbers, of how many bytes each."""
    view = memoryview(pages)
    if view.itemsize not in (4, 8) or view.format.lstrip("@=<") not in INTEGERS:
        raise TypeError(f"page numbers are integers of 4 or 8 bytes, not {view.format!r}")
    _, length, held = readable(pages)
    return held, length // view.itemsize, view.itemsize
