# SPDX-License-Identifier: Apache-2.0
# What cffi makes from xfer.h: ffi is a cffi.FFI, lib has every function and constant of the header.
from typing import Any

ffi: Any
lib: Any
