# SPDX-License-Identifier: Apache-2.0
"""Counts notifications."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from xfer import _errors
from xfer._operation import Operation, milliseconds, struct
from xfer._xfer import ffi, lib

if TYPE_CHECKING:
    from xfer._engine import Engine


class Counter:
    """From Engine.counter(): counts notifications with one key until it is closed.

    reached   its result, how many came, is there when all that were expected have; TimedOut, with
              that number as `index`, at its deadline; Canceled if the counter is closed before
    """

    _ended = True  # until it was opened

    def __init__(self, engine: Engine, raw: Any, reached: Operation[int]) -> None:
        self._engine, self._raw, self.reached = engine, raw, reached
        self._ended = False

    def close(self) -> None:
        """Later notifications with its key are told to on_event again. Twice is once."""
        if self._ended:
            return
        self._ended = True
        status = lib.xfer_counter_close(self._raw)
        if status not in (lib.XFER_OK, lib.XFER_ECLOSED):
            _errors.check(status)
        if self._engine._live.pop(self.reached.word, None):
            self.reached._finish(_errors.of_status(lib.XFER_ECANCELED))

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._engine._is_foreign():
            self.close()

    def __del__(self) -> None:
        if self._ended or self._engine._is_foreign():
            return
        try:
            if not self._engine._ended:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
        finally:  # a warning may be an error
            lib.xfer_counter_close(self._raw)


def count(engine: Engine, key: int, expected: int, timeout: float | None) -> Counter:
    """Engine.counter()."""
    reached: Operation[int] = Operation(engine, lambda event: int(event.index))
    out, error = ffi.new("xfer_counter_t **"), _errors.new_error()
    options = struct("xfer_counter_options_t", timeout_ms=milliseconds(timeout), user=reached.word)
    args = engine.raw, key, expected, options, out
    reached._call(lib.xfer_counter_open, *args, error=error)
    return Counter(engine, out[0], reached)
