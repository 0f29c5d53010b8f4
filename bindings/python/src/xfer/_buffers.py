# SPDX-License-Identifier: Apache-2.0
"""Where an object's bytes lie. What is returned keeps them there for as long as it is held.

Taken are C-contiguous buffers (bytes, bytearray, memoryview, mmap, array, numpy) and, without
importing any framework, what has `__cuda_array_interface__` or `__dlpack__`. All else is refused
before the library sees it: memory that is not contiguous and, as a destination, memory that is
read-only, with BufferError, as is what its owner does not export (a tensor of PyTorch that requires
grad); an object without memory with TypeError.

Memory of a device may be used when the work that its producer had begun on it is over, which these
calls wait for: of `__cuda_array_interface__` (version 3) for the stream that it names, None being
none; of `__dlpack__` for the legacy default stream of the memory's device, behind which the
producer is asked to put itself (`stream=1`). An array interface that can't name a stream (version
2, as PyTorch's) or does not mention one gives way to `__dlpack__`; without that it says nothing,
and its owner synchronizes.

What PyTorch puts there is the current stream of the current device, and no other one. Whoever has
work under way by a stream that is not current, or by one of another device than the current one
that is not its default stream, synchronizes first.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from xfer import _streams
from xfer._xfer import ffi

# DLDeviceType: kDLCUDA and kDLCUDAManaged, whose producers take a stream.
_WITH_STREAMS = (2, 13)


class ReadOnly(BufferError):
    """It can't be written as it lies there. Nothing was waited for."""


class Span(NamedTuple):
    """Memory that is lent: where, how long, and what keeps it there."""

    start: Any  # a char *
    length: int
    held: Any


class _Tensor(ctypes.Structure):
    """DLTensor, at the beginning of DLManagedTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


def readable(memory: Any) -> Span:
    """For sources."""
    return _span(memory, False)


def writable(memory: Any) -> Span:
    """For destinations, and for what peers may write."""
    return _span(memory, True)


def _span(memory: Any, writes: bool) -> Span:
    try:
        held = ffi.from_buffer(memory, require_writable=writes)
        return Span(held, len(held), held)
    except (BufferError, ValueError) as error:  # numpy's word for it is ValueError
        raise (ReadOnly if writes else BufferError)(str(error)) from None
    except TypeError:
        told = _exported(lambda: getattr(memory, "__cuda_array_interface__", None))
        if told is not None:
            return _of_cuda(memory, told, writes)
        if _has_dlpack(memory):
            return _of_dlpack(memory)
        raise


def _exported(get: Callable[[], Any]) -> Any:
    """What the owner tells, or BufferError: PyTorch's word for "no" is RuntimeError."""
    try:
        return get()
    except (BufferError, TypeError):
        raise
    except Exception as error:
        raise BufferError(f"the memory is not exported: {error}") from error


def _contiguous(shape: list[int], strides: list[int]) -> bool:
    """`strides` in units of an element."""
    if 0 in shape:
        return True
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _of_cuda(memory: Any, told: Any, writes: bool) -> Span:
    address, read_only = told["data"]
    if read_only and writes:
        raise ReadOnly("the array is read-only")
    if ("stream" not in told or told.get("version", 0) < 3) and _has_dlpack(memory):
        return _of_dlpack(memory)
    shape, item = list(told["shape"]), int(told["typestr"][2:])
    strides = told.get("strides")
    if strides and not _contiguous(shape, [stride / item for stride in strides]):
        raise BufferError("the array is not C-contiguous")
    length = math.prod(shape) * item
    stream = told.get("stream")
    if stream == 0:  # of which of the default streams it is, nobody can tell
        raise ValueError("stream 0 is not allowed in __cuda_array_interface__")
    if stream is not None and length:
        _streams.wait(stream, address)
    return Span(ffi.cast("char *", address), length, memory)


def _has_dlpack(memory: Any) -> bool:
    return _exported(lambda: getattr(memory, "__dlpack__", None)) is not None


def _has_streams(memory: Any) -> bool:
    told = getattr(memory, "__dlpack_device__", None)
    return told is not None and told()[0] in _WITH_STREAMS


def _of_dlpack(memory: Any) -> Span:
    # A capsule without a version can't say "read-only": its producer refuses to make one.
    streams = _exported(lambda: _has_streams(memory))
    order = {"stream": _streams.LEGACY} if streams else {}
    capsule = _exported(lambda: memory.__dlpack__(**order))
    tensor = _Tensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    shape = tensor.shape[: tensor.ndim]
    if tensor.strides and not _contiguous(shape, tensor.strides[: tensor.ndim]):
        raise BufferError("the tensor is not C-contiguous")
    length = math.prod(shape) * tensor.bits * tensor.lanes // 8
    address = (tensor.data or 0) + tensor.byte_offset
    if streams and length:
        _streams.wait(_streams.LEGACY, address)
    return Span(ffi.cast("char *", address), length, capsule)
