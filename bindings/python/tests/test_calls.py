# SPDX-License-Identifier: Apache-2.0
"""An engine that ends beside calls of other threads: it is freed when the last has returned."""

from __future__ import annotations

import contextlib
import gc
import re
import threading
import warnings
from functools import partial
from typing import Any, Callable

import pytest
from conftest import ANYWHERE, PATIENCE

from xfer import (
    READ,
    WRITE,
    Batch,
    Canceled,
    Closed,
    Endpoint,
    Engine,
    Region,
    _batch,
    _calls,
    _counter,
    _endpoint,
    _engine,
    _operation,
    _region,
    _waiting,
)
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
        self.closed_by = list[int]()
        modules = _batch, _calls, _counter, _endpoint, _engine, _operation, _region, _waiting
        for module in modules:
            monkeypatch.setattr(module, "lib", self)

    def __getattr__(self, name: str) -> Any:
        if name == "xfer_py_join":
            return self.join
        if re.fullmatch("xfer_(py_)?(ep|region|batch|counter)_close", name):
            return partial(self.close, getattr(lib, name))
        return self.wait if name == self.name else getattr(lib, name)

    def close(self, function: Any, handle: Any) -> Any:
        self.closed_by.append(threading.get_ident())
        return function(handle)

    def wait(self, *args: Any) -> Any:
        self.inside.set()
        assert self.go_on.wait(PATIENCE)
        return lib.XFER_ECLOSED if self.freed_by else getattr(lib, self.name)(*args)

    def join(self, engine: Any, joined: Any) -> None:
        before = joined[0]
        lib.xfer_py_join(engine, joined)
        if joined[0] and not before:
            self.freed_by.append(threading.get_ident())


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


USES: dict[str, Callable[[Endpoint, Region, Batch], Any]] = {
    "xfer_put": lambda ep, region, batch: ep.put(b"data", region.ref),
    "xfer_send": lambda ep, region, batch: ep.send_quiet(b"data"),
    "xfer_ep_state": lambda ep, region, batch: ep.state,
    "xfer_recv": lambda ep, region, batch: ep._engine.recv(8, ep=ep),
    "xfer_peek": lambda ep, region, batch: ep._engine.peek(ep=ep),
    "xfer_cancel": lambda ep, region, batch: ep._engine.cancel(ep=ep),
    "xfer_batch_open": lambda ep, region, batch: ep.batch().close(),
    "xfer_batch_info": lambda ep, region, batch: batch.info,
    "xfer_batch_submit": lambda ep, region, batch: batch.submit(),
    "xfer_region_info": lambda ep, region, batch: region.info,
    "xfer_region_grant": lambda ep, region, batch: region.grant(READ, 0, 1),
}


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("name", USES)
def test_close_beside_a_call(name: str, made: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the handle that it uses, which goes on: it is closed once, by the thread of the call."""
    library = Library("", monkeypatch)
    with Engine() as engine, engine.endpoint(peer=engine.id) as ep, ep.batch() as batch:
        library.name = name
        region = engine.alloc(8, "", WRITE) if made else engine.region(bytearray(8), "", WRITE)
        handle: Any = region if "region" in name else batch if "batch" in name else ep
        handle = ep if name == "xfer_batch_open" else handle
        thread = begin(lambda engine: USES[name](ep, region, batch), engine)
        assert library.inside.wait(PATIENCE)
        handle.close()
        handle.close()
        early = list(library.closed_by)
        library.go_on.set()
        thread.join(PATIENCE)
        assert early == [] and thread.ident in library.closed_by
        with pytest.raises(Closed):
            USES[name](ep, region, batch)
        region.close().result(PATIENCE)
        ep.close().result(PATIENCE)
    batch.close()


def test_interrupt_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the engine is joined: what had no event ends all the same."""

    class Interrupted:
        def __getattr__(self, name: str) -> Any:
            return self.join if name == "xfer_py_join" else getattr(lib, name)

        def join(self, *args: Any) -> None:
            lib.xfer_py_join(*args)
            raise KeyboardInterrupt

    engine = Engine()
    counter, grant = engine.counter(1, 1), engine.region(bytearray(8)).grant(READ)
    engine.close()
    with monkeypatch.context() as patch:
        for module in (_calls, _engine):
            patch.setattr(module, "lib", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            engine.wait_for(lambda: False, PATIENCE)
    assert engine.closed.done()
    for ended, kind in ((counter.reached, Canceled), (grant.ended, Closed)):
        assert ended.done() and isinstance(ended.exception(), kind)
    grant._region.close().result(PATIENCE)
    counter.close()


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
    while ending.is_alive() and not engine._calls.over:
        pass
    library.go_on.set()
    describing.join(PATIENCE)
    ending.join(PATIENCE)
    assert seen == [describing.ident]
