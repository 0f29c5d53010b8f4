# SPDX-License-Identifier: Apache-2.0
"""Finds the handle of a stream, and waits for the one by which the content of a CUDA array comes.

The streams of libxfer are non-blocking, so they are ordered behind no other one, the default
streams included. So the host waits, as CuPy and Numba do with an array of somebody else's. The
driver is asked by its library, and no framework is imported.

A wait is what a thread may not do while any captures a graph in the global mode, which is the one
that threads begin with. So it is done in the relaxed mode, and has nothing to do with a graph that
is captured by streams which do not block on the default one, as PyTorch's.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import operator
from collections.abc import Iterator
from typing import Any

LEGACY = 1  # the default stream of a context, in both protocols and for the driver

# CU_POINTER_ATTRIBUTE_...
_CONTEXT = 1
_DEVICE_ORDINAL = 9

_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_...


def handle(stream: Any) -> int:
    """The CUstream that it is, or has."""
    try:
        number = operator.index(_told(stream))
    except TypeError:
        raise TypeError(f"no stream of CUDA: {stream!r}") from None
    if isinstance(stream, bool) or not 0 <= number < 1 << 64:
        raise TypeError(f"no stream of CUDA: {stream!r}")
    return number


def _told(stream: Any) -> Any:
    """By the protocol, which has one version, or as PyTorch and CuPy call it."""
    if hasattr(stream, "__cuda_stream__"):
        version, number = stream.__cuda_stream__()
        return number if version == 0 else None
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return getattr(stream, name)
    return stream


@functools.cache
def _driver() -> Any:
    """The names are those that the header gives to the functions of now."""
    driver = ctypes.CDLL("libcuda.so.1")
    pointer, number = ctypes.c_void_p, ctypes.c_int
    driver.cuPointerGetAttribute.argtypes = (pointer, number, ctypes.c_uint64)
    driver.cuDevicePrimaryCtxRetain.argtypes = (pointer, number)
    driver.cuDevicePrimaryCtxRelease_v2.argtypes = (number,)
    driver.cuCtxPushCurrent_v2.argtypes = (pointer,)
    driver.cuCtxPopCurrent_v2.argtypes = (pointer,)
    driver.cuStreamSynchronize.argtypes = (pointer,)
    if hasattr(driver, "cuThreadExchangeStreamCaptureMode"):  # since CUDA 10.1
        driver.cuThreadExchangeStreamCaptureMode.argtypes = (pointer,)
    return driver


def _check(result: int) -> None:
    if result:
        raise BufferError(f"the stream of the array cannot be waited for: CUDA error {result}")


def wait(stream: int, address: int) -> None:
    """Until all is over that is in that stream now. `address`: memory of its device."""
    try:
        driver = _driver()
    except OSError as error:
        raise BufferError(f"the stream of the array cannot be waited for: {error}") from None
    context, device = ctypes.c_void_p(), ctypes.c_int()
    _check(driver.cuPointerGetAttribute(ctypes.byref(context), _CONTEXT, address))
    if context:
        return _wait_in(driver, context, stream)
    # Memory of a pool is of no context: who has one uses the primary context of its device.
    _check(driver.cuPointerGetAttribute(ctypes.byref(device), _DEVICE_ORDINAL, address))
    _check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    try:
        _wait_in(driver, context, stream)
    finally:
        driver.cuDevicePrimaryCtxRelease_v2(device)


def _wait_in(driver: Any, context: ctypes.c_void_p, stream: int) -> None:
    """The default streams are those of the context that is current."""
    _check(driver.cuCtxPushCurrent_v2(context))
    try:
        with _relaxed(driver):
            _check(driver.cuStreamSynchronize(stream))
    finally:
        driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


@contextlib.contextmanager
def _relaxed(driver: Any) -> Iterator[None]:
    """The mode belongs to the thread."""
    exchange = getattr(driver, "cuThreadExchangeStreamCaptureMode", None)
    if exchange is None:
        yield
        return
    mode = ctypes.c_int(_RELAXED)
    _check(exchange(ctypes.byref(mode)))
    try:
        yield
    finally:
        exchange(ctypes.byref(mode))
