# SPDX-License-Identifier: Apache-2.0
"""What the binding knows of the header and of the library that was loaded."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ANYWHERE

import xfer
from xfer import Engine, Kind, NotFound, Status, XferError, _check, _errors
from xfer._xfer import ffi, lib

SOURCE = Path(__file__).parent.parent


def test_version_matches() -> None:
    assert lib.xfer_version() >> 8 == lib.XFER_VERSION >> 8
    assert xfer.__version__ == _check.text(lib.xfer_version())
    _check.check_version(0x000105, 0x000109)
    with pytest.raises(ImportError, match=r"0\.2\.0 was loaded.* built for 0\.1\.0"):
        _check.check_version(0x000100, 0x000200)
    with pytest.raises(ImportError, match=r"1\.1\.0"):
        _check.check_version(0x000100, 0x010100)


def test_statuses_complete() -> None:
    status = ffi.new("xfer_status_t *")
    numbers: list[int] = []
    while lib.xfer_status_at(len(numbers), status) == lib.XFER_OK:
        numbers.append(status[0])
    assert sorted(numbers) == sorted(Status)
    for member in Status:
        assert xfer.status_name(member) == f"XFER_{member.name}"
    for kind in Kind:
        assert ffi.string(lib.xfer_event_name(kind)).decode() == f"XFER_EVENT_{kind.name}"


def test_layouts_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """cffi compares sizes and offsets when it is asked, which is done for each struct."""
    _check.check_layouts()
    assert ffi.sizeof("xfer_event_t") == 128
    assert ffi.offsetof("xfer_event_t", "user") == 24
    monkeypatch.setitem(_check.FIXED, "xfer_event_t", 120)
    with pytest.raises(ImportError, match="xfer_event_t has 128 bytes instead of 120"):
        _check.check_layouts()


def test_unknown_values() -> None:
    """An event of a later library is shown with its number, whatever its fields."""
    told: list[xfer.Event] = []
    with Engine(told.append) as engine:
        event = ffi.new("xfer_event_t *", {"kind": 999, "status": -900, "flags": 1 << 31})
        event.user = engine.closed.word
        engine._dispatch(event)
        engine._waiting.taken += 1  # as of one that the library gave
        assert not engine.closed.done()
        engine.poll()
        assert (told[0].kind, told[0].status, told[0].name) == (999, -900, "XFER_EVENT_UNKNOWN")
    error = _errors.of_status(-900)
    assert (error.status, error.name) == (-900, "XFER_EUNKNOWN")


TEXTS: dict[str, Any] = {
    "io_threads": 2,
    "spin_us": "none",
    "log_level": "error",
    "id": b"0123456789abcdef",
    "blob": b"a\0b",
    "key": b"\0" + bytes(range(63)),
    "transports": "tcp",
    "advertise": "tcp://127.0.0.1:7777",
    "dispatch": "poll",
}


def test_every_option_settable() -> None:
    """All but one at once: `unref` is of a loop."""
    options: dict[str, Any] = {}
    for option in xfer.engine_options():
        if option.name == "unref":
            continue
        value: Any = TEXTS.get(option.name)
        if value is None:
            value = True if option.values.startswith("yes") else 1000
        options[option.name] = value
    assert len(options) > 20
    options["lanes"] = 2
    with Engine(**options) as engine:
        described = engine.describe()
        assert described["id"] == TEXTS["id"].hex()
        assert engine.id.bytes == TEXTS["id"]
        assert engine.transports == {xfer.Transport.TCP}
    for name in options:
        if name not in ("blob", "key", "advertise", "transports"):  # any text is one of theirs
            wrong: dict[str, Any] = {name: "no such value"}
            with pytest.raises(XferError, match=name):
                Engine(**wrong)
    with pytest.raises(NotFound, match="no_such_option"):
        Engine(no_such_option=1)
    for dispatch in ("thread", "loop"):  # the wheel has a libuv of its own, which has no loop
        with pytest.raises(XferError, match="dispatch: from Python it is always poll") as caught:
            Engine(dispatch=dispatch)
        assert caught.value.status == Status.EUNSUPPORTED
    with pytest.raises(XferError, match="unref"):
        Engine(unref="maybe")
    check_rdma_options()


def check_rdma_options() -> None:
    given = xfer.RdmaOptions("none", 64, 18, 0, 104, 3)
    with Engine() as engine:
        has_rdma = xfer.Transport.RDMA in engine.transports
        defaults = engine.describe()["options"].get("rdma")
    if not has_rdma:
        with pytest.raises(XferError, match="rdma"):
            Engine(rdma=given)
        return
    for options, described in ((xfer.RdmaOptions(), defaults), (given, given._asdict())):
        with Engine(rdma=options) as engine:
            assert engine.describe()["options"]["rdma"] == described
    with pytest.raises(XferError, match="retries is more than 6"):
        Engine(rdma=xfer.RdmaOptions(retries=7))
    with pytest.raises(XferError, match="mlx5_0:none"):
        Engine(rdma=xfer.RdmaOptions("mlx5_0:none"))


def _other_version(folder: Path, pc_version: str) -> dict[str, str]:
    """Headers whose minor version is another one's, for pkg-config to find."""
    include = Path(_pkg_config("--variable=includedir"))
    shutil.copytree(include / "xfer", folder / "include" / "xfer")
    version = folder / "include" / "xfer" / "version.h"
    text = version.read_text()
    version.write_text(re.sub(r"(XFER_VERSION_MINOR) \d+", r"\1 77", text))
    (folder / "xfer.pc").write_text(
        f"includedir={folder}/include\nName: xfer\nDescription: x\nVersion: {pc_version}\n"
        f"Cflags: -I${{includedir}}\nLibs: -L{_pkg_config('--variable=libdir')} -lxfer\n"
    )
    return {**os.environ, "PKG_CONFIG_PATH": str(folder)}


def _pkg_config(*args: str) -> str:
    return subprocess.check_output(["pkg-config", *args, "xfer"], text=True).strip()


def _run(*command: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=120, check=False
    )


def test_header_of_another_version(tmp_path: Path) -> None:
    """Refused when it is built, if pkg-config knows better; else when it is loaded."""
    ours = _pkg_config("--modversion")
    env = _other_version(tmp_path / "a", ours)
    headers, output = str(tmp_path / "a" / "include" / "xfer"), str(tmp_path / "never.c")
    refused = _run(sys.executable, str(SOURCE / "generate.py"), headers, ours, output, env=env)
    assert refused.returncode != 0
    assert f"headers are of libxfer 0.77.0, the library is {ours}" in refused.stderr

    env = _other_version(tmp_path / "b", "0.77.0")
    command = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps"]
    where = ["--no-index", "--target", str(tmp_path / "built")]
    built = _run(*command, *where, str(SOURCE), env=env)
    assert built.returncode == 0, built.stderr
    env["PYTHONPATH"] = str(tmp_path / "built")
    loaded = _run(sys.executable, "-c", "import xfer", env=env)
    assert loaded.returncode != 0
    assert f"libxfer {ours} was loaded, but this package was built for 0.77.0" in loaded.stderr


def test_error_detail(engine: Engine) -> None:
    taken = engine.listen(ANYWHERE)
    with pytest.raises(XferError) as caught:
        engine.listen(taken)
    error = caught.value
    assert (error.status, error.name) == (Status.EADDRINUSE, "XFER_EADDRINUSE")
    assert (error.origin, error.native_code) == (lib.XFER_ORIGIN_OS, errno.EADDRINUSE)
    assert isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    assert taken.removeprefix("tcp://") in str(error)
