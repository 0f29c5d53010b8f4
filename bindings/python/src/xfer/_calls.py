# SPDX-License-Identifier: Apache-2.0
"""Calls of the library with a handle, which another thread may close meanwhile."""

from __future__ import annotations

from typing import Any, Callable

from xfer._xfer import lib


class Calls:
    """The handle is freed after its end, by the last of the calls that are under way then, or at
    once where there are none. To wait for them instead would be a deadlock where the end comes in
    the handler of a signal that has interrupted one. `free` is called by each that may be the last,
    and after an interrupt again, and does its work once; it returns the status of the end."""

    def __init__(self, free: Callable[[], int]) -> None:
        self._free = free
        self.under_way: set[object] = set()
        self.over = False

    def __call__(self, function: Any, *args: Any) -> int:
        """The status of the call, which is not made any more after the end: XFER_ECLOSED."""
        call = object()
        try:  # A set, since an interrupt may come before or after what counts the call.
            self.under_way.add(call)
            return lib.XFER_ECLOSED if self.over else function(*args)  # type: ignore[no-any-return]
        finally:
            self.under_way.discard(call)
            if self.over:
                self.end()

    def end(self) -> int:
        """From here on no call is made."""
        self.over = True
        return lib.XFER_OK if self.under_way else self._free()

    def forget(self) -> None:
        """In a child of fork, which has no other thread."""
        self.under_way.clear()
