# SPDX-License-Identifier: Apache-2.0
"""An engine that ends beside calls of other threads: it is freed when the last has returned."""

from __future__ import annotations

import contextlib
import gc
import threading
import warnings
from typing import Any, Callable

import pytest
from conftest import ANYWHERE, PATIENCE

from xfer import Closed, Engine, _calls, _counter, _engine, _operation, _region, _waiting
from xfer._xfer import lib

CALLS: dict[str, Callable[[Engine], Any]] = {
    "xfer_engine_id": lambda engine: engine.id,
    "xfer_engine_addresses": lambda engine: engine.addresses,
    "xfer_engine_kinds": lambda engine: engine.kinds,
    "xfer_engine_transports": lambda engine: engine.transports,
    "xfer_engine_describe": lambda engine: engine.describe(),
    "xfer_engine_stats": lambda engine: engine.stats(),
    "xfer_engine_listen": lambda engine: engine.listen(ANYWHERE),
    "xfer_ep_open": lambda engine: engine.endpoint(ANYWHERE),
    "xfer_region_open": lambda engine: engine.region(bytearray(8)),
    "xfer_region_alloc": lambda engine: engine.alloc(8),
    "xfer_recv": lambda engine: engine.recv(8),
    "xfer_peek": lambda engine: engine.peek(),
    "xfer_counter_open": lambda engine: engine.counter(1, 1),
    "xfer_cancel": lambda engine: engine.cancel(),
    "xfer_engine_drain": lambda engine: engine.drain(),
    "xfer_engine_wake": lambda engine: engine.wake(),
    "xfer_engine_close": lambda engine: engine.close(),
    "xfer_engine_poll": lambda engine: engine.poll(),
}
# While one of these is under way only the end of the program ends the engine.
BESIDE_THE_END = {"xfer_engine_close", "xfer_engine_poll"}


class Library:
    """The library, but for one function, which waits before it does its work. Who has freed an
    engine is noted."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name, self.freed_by = name, list[int]()
        self.inside, self.go_on = threading.Event(), threading.Event()
        gc.collect()  # engines of other tests are not freed here
        for module in (_calls, _counter, _engine, _operation, _region, _waiting):
            monkeypatch.setattr(module, "lib", self)

    def __getattr__(self, name: str) -> Any:
        if name == "xfer_py_join":
            return self.join
        return self.wait if name == self.name else getattr(lib, name)

    def wait(self, *args: Any) -> Any:
        self.inside.set()
        assert self.go_on.wait(PATIENCE)
        return lib.XFER_ECLOSED if self.freed_by else getattr(lib, self.name)(*args)

    def join(self, engine: Any) -> Any:
        freed = lib.xfer_py_join(engine)
        if freed:
            self.freed_by.append(threading.get_ident())
        return freed


def begin(call: Callable[[Engine], Any], engine: Engine) -> threading.Thread:
    """In a thread of its own. It may come too late."""

    def work() -> None:
        with contextlib.suppress(Closed):
            call(engine)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("name", CALLS)
def test_end_beside_a_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(name, monkeypatch)
    engine = Engine()
    thread = begin(CALLS[name], engine)
    assert library.inside.wait(PATIENCE)
    if name in BESIDE_THE_END:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one of them was not closed
            engine._forgotten()
    else:
        engine.close().result(PATIENCE)
    early = list(library.freed_by)
    library.go_on.set()
    thread.join(PATIENCE)
    assert early == [] and library.freed_by == [thread.ident]


def test_end_beside_the_cancel_of_an_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which raises nothing, as the operation has ended."""
    library = Library("xfer_cancel", monkeypatch)
    engine = Engine()
    received = engine.recv(8)
    thread = threading.Thread(target=received.cancel)
    thread.start()
    assert library.inside.wait(PATIENCE)
    engine.close().result(PATIENCE)
    assert library.freed_by == [] and received.done()
    library.go_on.set()
    thread.join(PATIENCE)
    assert library.freed_by == [thread.ident]


def test_end_of_the_program_beside_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for the call, so that peers are told."""
    library = Library("xfer_engine_describe", monkeypatch)
    engine, seen = Engine(), list[Any]()
    monkeypatch.setattr(_engine, "_open_engines", {engine})
    monkeypatch.setattr(_engine, "LAST_CALLS", PATIENCE)
    describing = begin(Engine.describe, engine)
    assert library.inside.wait(PATIENCE)
    engine.close()

    def end() -> None:
        _engine._end_of_the_program()
        seen.extend(library.freed_by)

    ending = threading.Thread(target=end)
    ending.start()
    while ending.is_alive() and not engine._joined:
        pass
    library.go_on.set()
    describing.join(PATIENCE)
    ending.join(PATIENCE)
    assert seen == [describing.ident]
