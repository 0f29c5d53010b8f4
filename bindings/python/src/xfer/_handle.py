# SPDX-License-Identifier: Apache-2.0
"""The life of handles: of engines, regions and endpoints until their CLOSED event, of batches and
counters until their close."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from xfer import _errors
from xfer._calls import Calls
from xfer._operation import Operation
from xfer._xfer import lib

if TYPE_CHECKING:
    from xfer._engine import Engine

Self = TypeVar("Self", bound="Handle")
SelfFreed = TypeVar("SelfFreed", bound="Freed")


class Owned:
    """What is closed once. One that is forgotten is closed, with a ResourceWarning."""

    _ended = True  # until it was opened
    _warns = True

    def __init__(self, engine: Engine, raw: Any, calls: Calls, close: Callable[[], int]) -> None:
        self._engine, self._raw, self._calls, self._close = engine, raw, calls, close
        self._ended = False

    @property
    def raw(self) -> Any:
        """The handle for calls of xfer._xfer.lib. Closed once it is closed."""
        if self._ended:
            raise _errors.of_status(lib.XFER_ECLOSED)
        return self._raw

    def __del__(self) -> None:
        if self._ended or self._engine._is_foreign():
            return
        try:
            if self._warns and not self._engine._ended:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
        finally:  # a warning may be an error
            self._ended = True
            self._close()

    def _end(self) -> None:
        """Once more is nothing, unless an interrupt came before the call."""
        if not self._ended and self._engine._is_foreign():
            raise _errors.of_status(lib.XFER_EFORKED)
        self._ended = True
        status = self._close()
        if status != lib.XFER_ECLOSED:  # else the engine's end came first
            _errors.check(status)


class Handle(Owned):
    """Use it in `with` or `async with`, or close it, in whatever order. A task that is canceled
    while it awaits the end, as at that of `async with`, does not wait for it any more."""

    def __init__(
        self,
        engine: Engine,
        raw: Any,
        closed: Operation[None],
        calls: Calls,
        close: Callable[[], int],
    ) -> None:
        self.closed = closed
        super().__init__(engine, raw, calls, close)

    def close(self) -> Operation[None]:
        """Starts the end; the result is there when it has come, and memory is the caller's again.
        Closing twice is closing once. Any thread."""
        self._end()
        return self.closed

    def _leave(self) -> Operation[None] | None:
        """As close(), but in a child of fork, where nothing of it is ours."""
        return None if self._engine._is_foreign() else self.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        closed = self._leave()
        if closed:
            closed.result()

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        closed = self._leave()
        if closed:
            await closed


class Freed(Owned):
    """A batch or a counter, which ends with its close."""

    def close(self) -> None:
        """Ends it. Twice is once."""
        self._end()

    def __enter__(self: SelfFreed) -> SelfFreed:
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._engine._is_foreign():
            self.close()
