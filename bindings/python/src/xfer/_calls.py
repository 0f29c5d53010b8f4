# SPDX-License-Identifier: Apache-2.0
"""Calls of the library with the handle of an engine, which another thread may end meanwhile."""

from __future__ import annotations

import threading
from typing import Any, Callable

from xfer._xfer import lib


class Calls:
    """The engine is freed after its end, by the last of the calls that are under way then, or at
    once where there are none. To wait for them instead would be a deadlock where the end comes in
    the handler of a signal that has interrupted one. `freed` is called after that."""

    def __init__(self, engine: Any, freed: Callable[[], Any]) -> None:
        self._engine, self._freed = engine, freed  # a pointer to the handle, to NULL once freed
        self._under_way: set[object] = set()
        self._over = False
        self.all_returned = threading.Event()

    def __call__(self, function: Any, *args: Any) -> int:
        """The status of the call, which is not made any more after the end: XFER_ECLOSED."""
        call = object()
        try:  # A set, since an interrupt may come before or after what counts the call.
            self._under_way.add(call)
            return lib.XFER_ECLOSED if self._over else function(*args)  # type: ignore[no-any-return]
        finally:
            self._under_way.discard(call)
            if self._over:
                self._free()

    def end(self) -> None:
        """From here on no call is made."""
        self._over = True
        self._free()

    def forget(self) -> None:
        """In a child of fork, which has no other thread."""
        self._under_way.clear()

    def _free(self) -> None:
        if not self._under_way and lib.xfer_py_join(self._engine):
            self.all_returned.set()
            self._freed()
