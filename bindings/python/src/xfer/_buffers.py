# SPDX-License-Identifier: Apache-2.0
"""Where an object's bytes lie. What is returned keeps them there for as long as it is held.

Taken are C-contiguous buffers (bytes, bytearray, memoryview, mmap, array, numpy) and, without
importing any framework, what has `__cuda_array_interface__` or `__dlpack__`. All else is refused
before the library sees it: memory that is not contiguous and, as a destination, memory that is
read-only, with BufferError; an object without memory with TypeError.

Memory of a device may be used when the work that its producer had begun on it is over, which these
calls wait for: of `__cuda_array_interface__` (version 3) for the stream that it names, where it
names one; of `__dlpack__` for the legacy default stream, behind which the producer is asked to put
itself (`stream=1`). An array interface without a stream says nothing: its owner synchronizes.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple

from xfer import _streams
from xfer._xfer import ffi

# DLDeviceType: kDLCUDA and kDLCUDAManaged, whose producers take a stream. Others take none.
_WITH_STREAMS = (2, 13)


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
    except ValueError as error:  # what numpy says of an array that is not contiguous
        raise BufferError(str(error)) from None
    except TypeError:
        if hasattr(memory, "__cuda_array_interface__"):
            return _of_cuda(memory, writes)
        if hasattr(memory, "__dlpack__"):
            return _of_dlpack(memory)
        raise


def _contiguous(shape: list[int], strides: list[int]) -> bool:
    """`strides` in units of an element."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _of_cuda(memory: Any, writes: bool) -> Span:
    told = memory.__cuda_array_interface__
    address, read_only = told["data"]
    if read_only and writes:
        raise BufferError("the array is read-only")
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


def _has_streams(memory: Any) -> bool:
    told = getattr(memory, "__dlpack_device__", None)
    return told is not None and told()[0] in _WITH_STREAMS


def _of_dlpack(memory: Any) -> Span:
    # A capsule without a version can't say "read-only": its producer refuses to make one.
    streams = _has_streams(memory)
    capsule = memory.__dlpack__(stream=_streams.LEGACY) if streams else memory.__dlpack__()
    tensor = _Tensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    shape = tensor.shape[: tensor.ndim]
    if tensor.strides and not _contiguous(shape, tensor.strides[: tensor.ndim]):
        raise BufferError("the tensor is not C-contiguous")
    length = math.prod(shape) * tensor.bits * tensor.lanes // 8
    address = (tensor.data or 0) + tensor.byte_offset
    if streams and length:
        _streams.wait(_streams.LEGACY, address)
    return Span(ffi.cast("char *", address), length, capsule)
