# SPDX-License-Identifier: Apache-2.0
"""Counts notifications."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from xfer import _errors
from xfer._calls import Calls
from xfer._handle import Freed
from xfer._operation import Completion, Operation, milliseconds, struct
from xfer._xfer import ffi, lib

if TYPE_CHECKING:
    from xfer._engine import Engine


class Counter(Freed):
    """From Engine.counter(): counts notifications with one key until it is closed.

    reached   its result, how many came, is there when all that were expected have; TimedOut, with
              that number as `index`, at its deadline; Canceled if the counter is closed, or
              forgotten, or the engine closed, before
    """

    def __init__(self, engine: Engine, slot: Any, reached: Operation[int]) -> None:
        self.reached = reached
        calls = Calls(functools.partial(lib.xfer_py_counter_close, slot))
        super().__init__(engine, slot[0], calls, calls.end)

    def close(self) -> None:
        """Later notifications with its key are told to on_event again. Twice is once."""
        super().close()
        self._cancel()

    def _cancel(self) -> None:
        if self._engine._live.pop(self.reached.word, None):
            self.reached._finish(_errors.of_status(lib.XFER_ECANCELED))
            self._engine._waiting.wake()  # a thread may wait for it, and no event comes

    def __del__(self) -> None:
        forgotten = not self._ended
        try:
            super().__del__()
        finally:  # a warning may be an error
            if forgotten and self._ended:
                self._cancel()


def count(engine: Engine, key: int, expected: int, timeout: float | None) -> Counter:
    """Engine.counter()."""
    reached: Operation[int] = Completion(engine, lambda event: int(event.index))
    out, error = ffi.new("xfer_counter_t **"), _errors.new_error()
    options = struct("xfer_counter_options_t", timeout_ms=milliseconds(timeout), user=reached.word)
    args = engine.raw, key, expected, options, out
    reached._call(engine._calls, lib.xfer_counter_open, *args, error=error)
    return Counter(engine, out, reached)
