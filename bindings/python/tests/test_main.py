# SPDX-License-Identifier: Apache-2.0
"""python -m xfer, alone and together with xfer_tree."""

from __future__ import annotations

import filecmp
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import ANYWHERE, PATIENCE
from proxy import Proxy

from xfer import Engine, _tree

PYTHON = [sys.executable, "-m", "xfer"]
XFER_TREE = Path(
    subprocess.check_output(["pkg-config", "--variable=libdir", "xfer"], text=True).strip(),
    "../examples/c/tree/xfer_tree",
)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_info() -> None:
    told = run(*PYTHON, "info")
    assert told.returncode == 0, told.stderr
    assert "libxfer 0." in told.stdout and "io_threads" in told.stdout


def test_ping(engine: Engine) -> None:
    told = run(*PYTHON, "ping", "--count", "3", engine.listen(ANYWHERE))
    assert told.returncode == 0, told.stderr
    assert str(engine.id) in told.stdout and told.stdout.count("µs") == 3
    refused = run(*PYTHON, "ping", "tcp://127.0.0.1:9")
    assert refused.returncode == 1
    assert "XFER_EUNREACHABLE: tcp://127.0.0.1:9" in refused.stderr


def make_tree(root: Path) -> None:
    (root / "empty").mkdir(parents=True)
    (root / "deep" / "er").mkdir(parents=True)
    (root / "nothing").write_bytes(b"")
    (root / "deep" / "small").write_bytes(b"few bytes")
    (root / "deep" / "er" / "large").write_bytes(os.urandom((5 << 20) + 3))
    (root / "deep-er").write_bytes(os.urandom(300_000))
    (root / "link").symlink_to("deep/small")
    (root / "astray").symlink_to("no/such")
    (root / "deep" / "small").chmod(0o640)
    os.utime(root / "deep" / "small", ns=(1, 1_234_567_890_123_456_789))
    os.utime(root / "deep", ns=(1, 1_000_000_000_000_000_001))


def listing(root: Path) -> list[tuple[str, int, int, str]]:
    found = []
    for path in sorted(root.rglob("*")):
        info = path.lstat()
        target = os.readlink(path) if path.is_symlink() else ""
        time = 0 if target else info.st_mtime_ns
        found.append((str(path.relative_to(root)), info.st_mode, time, target))
    return found


@contextmanager
def serving(server: list[str], root: Path) -> Iterator[str]:
    command = [*server, "serve", str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        lines = [process.stdout.readline() for _ in range(2)]
        try:
            yield lines[1].split()[-1]
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("server", ["python", "c"])
@pytest.mark.parametrize("client", ["python", "c"])
def test_serve_and_fetch(server: str, client: str, tmp_path: Path) -> None:
    programs = {"python": PYTHON, "c": [str(XFER_TREE)]}
    if "c" in (server, client) and not XFER_TREE.exists():
        pytest.skip("xfer_tree was not built")
    make_tree(tmp_path / "tree")
    with serving(programs[server], tmp_path / "tree") as uri:
        told = run(*programs[client], "fetch", uri, str(tmp_path / "copy"))
        assert told.returncode == 0, told.stderr
        again = run(*programs[client], "fetch", uri, str(tmp_path / "copy"))
        assert again.returncode == 1
    assert listing(tmp_path / "copy") == listing(tmp_path / "tree")
    files = [entry[0] for entry in listing(tmp_path / "tree") if not entry[3]]
    files = [file for file in files if (tmp_path / "tree" / file).is_file()]
    same, *_ = filecmp.cmpfiles(tmp_path / "tree", tmp_path / "copy", files, shallow=False)
    assert sorted(same) == sorted(files)
    assert sorted(os.listdir(tmp_path)) == ["copy", "tree"]


def test_serve_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, reason in (("nowhere", "No such file or directory"), ("file", "Not a directory")):
        told = run(*PYTHON, "serve", str(tmp_path / name))
        assert told.returncode == 1 and not told.stdout
        assert reason in told.stderr and name in told.stderr and told.stderr.count("\n") == 1


def test_key_that_is_missing(tmp_path: Path) -> None:
    told = run(*PYTHON, "--key", str(tmp_path / "nowhere"), "info")
    assert told.returncode == 1
    assert "nowhere" in told.stderr and told.stderr.count("\n") == 1


def test_fetch_verifies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte that is changed on its way by TCP."""
    monkeypatch.setenv("XFER_TRANSPORTS", "tcp")
    make_tree(tmp_path / "tree")
    with serving(PYTHON, tmp_path / "tree") as uri:
        proxy = Proxy(uri, flips_answers=True)
        try:
            proxy.flip_at = (1 << 20) + 100_000
            told = run(*PYTHON, "fetch", proxy.uri, str(tmp_path / "copy"))
            assert told.returncode == 1 and "XFER_ECHECKSUM" in told.stderr
            assert proxy.flip_at == 0 and os.listdir(tmp_path) == ["tree"]
        finally:
            proxy.close()


@pytest.mark.parametrize(
    "entry",
    [
        _tree.Entry(_tree.FILE, b"../out", 0o600, 0),
        _tree.Entry(_tree.FILE, b"/out", 0o600, 0),
        _tree.Entry(_tree.FILE, b"link/out", 0o600, 0),
        _tree.Entry(_tree.FILE, b"a/./b", 0o600, 0),
        _tree.Entry(_tree.FILE, b"", 0o600, 0),
        _tree.Entry(_tree.FILE, b"far", 0o600, 0, 90, 20),
        _tree.Entry(_tree.FILE, b"in\0two", 0o600, 0),
        _tree.Entry(_tree.DIRECTORY, b"late", 0o600, 0),
        _tree.Entry(_tree.LINK, b"to nothing", 0o600, 0),
        _tree.Entry(7, b"strange", 0o600, 0),
    ],
)
def test_hostile_manifest(entry: _tree.Entry) -> None:
    link = _tree.Entry(_tree.LINK, b"link", 0o600, 0, 0, 0, b"/")
    good = _tree.Tree([link, _tree.Entry(_tree.FILE, b"a", 0o600, 5, 0, 10)], 100)
    data = _tree.encode(good)
    assert _tree.decode(data) == good
    for length in range(len(data)):
        with pytest.raises(ValueError, match="manifest"):
            _tree.decode(data[:length])
    with pytest.raises(ValueError, match="manifest"):
        _tree.decode(_tree.encode(good._replace(entries=[link, entry])))
