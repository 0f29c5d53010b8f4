#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One tree of files, served and fetched by the programs of C, Python, Go and Rust, in all pairs and by both paths; and
what goes wrong on purpose, which each of them must tell in one line.

Usage: tree_pairs.py BUILD_DIR. A language that the machine lacks is left out, with the reason.
"""

import contextlib
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
BUILD_SECONDS = 900  # the first run of a language fetches and builds
LIMIT = 120  # seconds of any other run, far beyond what it needs
PATHS = {"tcp": {"XFER_TRANSPORTS": "loopback,tcp"}, "local": {}}
SLICE = 64 << 20  # a fetch in C has so many bytes in memory at once; files that are larger come in pieces
BAR = re.compile(r"\[[#. ]*\]")
TRACE = re.compile(r"Traceback|panic|goroutine|RUST_BACKTRACE|Warning|core dumped")


class Failed(Exception):
    """A program that did not do what it is for."""


passed: list[str] = []
skipped: list[str] = []


def ok(text: str) -> None:
    passed.append(text)
    print(text, flush=True)


def require(condition: bool, text: str) -> None:
    if not condition:
        raise Failed(text)


# ---- the programs ----


class Program:
    def __init__(self, name: str, words: list[str]) -> None:
        self.name, self.words = name, words

    def run(self, *arguments: os.PathLike | str, path: str = "local", limit: float = LIMIT):
        words = [*self.words, *map(os.fspath, arguments)]
        try:
            return subprocess.run(words, env=environment(path), timeout=limit, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} {arguments[0]}: not done after {limit:.0f} s") from None

    def start(self, *arguments: os.PathLike | str, path: str = "local", **pipes) -> subprocess.Popen:
        words = [*self.words, *map(os.fspath, arguments)]
        return subprocess.Popen(words, env=environment(path), text=True, **pipes)


def environment(path: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if name != "XFER_TRANSPORTS"}
    return plain | PATHS[path]


def programs(build: pathlib.Path, work: pathlib.Path) -> list[Program]:
    """Those that this machine has. Builds them, so that no later run does."""
    there = [Program("c", [str(build / "examples/c/tree/xfer_tree")])]
    for language in ["python", "go", "rust"]:
        script = ROOT / "bindings" / language / "run-tree.sh"
        require(script.exists(), f"{script}: no such file")
        program = Program(language, ["bash", str(script), str(build)])
        first = program.run("fetch", "tcp:/nonsense", work / "nowhere", limit=BUILD_SECONDS)
        if first.returncode == SKIPPED:
            skipped.append(language)
            print(f"skipped: {language}: {first.stdout.strip().removeprefix('skip: ')}")
        else:
            there.append(program)
    return there


def read_uri(process: subprocess.Popen, name: str) -> str:
    """What a server says that it listens at."""
    timer = threading.Timer(LIMIT, process.kill)
    timer.start()
    try:
        for line in process.stdout:
            if found := re.search(r"\blistening at (\S+)", line):
                return found[1]
    finally:
        timer.cancel()
    raise Failed(f"{name}: serves nothing: {process.stderr.read() if process.stderr else ''}")


@contextlib.contextmanager
def serving(program: Program, tree: pathlib.Path, path: str, stop: signal.Signals = signal.SIGTERM):
    """Yields the URI; then the server must end by the signal, without a complaint."""
    process = program.start("serve", tree, path=path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield read_uri(process, f"{program.name} serve"), process
        if process.poll() is not None:
            return  # the test has ended it
        process.send_signal(stop)
        try:
            said = process.communicate(timeout=LIMIT)[1]
        except subprocess.TimeoutExpired:
            raise Failed(f"{program.name} serve: goes on after {stop.name}") from None
        require(process.returncode in (0, 130), f"{program.name} serve: {process.returncode} at {stop.name}\n{said}")
        require(not said, f"{program.name} serve: says at {stop.name}: {said}")
    finally:
        process.kill()
        process.communicate()


# ---- trees ----


def grow(root: pathlib.Path) -> None:
    """One of each kind of thing that a tree may have."""

    def write(name: str | bytes, data: bytes, mode: int = 0o644, nanoseconds: int = 10**18 + 123456789) -> None:
        path = os.path.join(os.fsencode(root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        os.utime(path, ns=(nanoseconds, nanoseconds))
        os.chmod(path, mode)

    write("empty", b"")
    (root / "empty folder").mkdir()
    write("/".join(f"level {i}" for i in range(30)) + "/leaf", b"deep")
    write("spaces, \N{LATIN SMALL LETTER E WITH ACUTE}, \N{SNOWFLAKE} and 'quotes'.txt", b"named")
    write("a line\nbreak", b"named")
    write(b"not UTF-8: \xe9\xff", b"named")
    write("-option", b"named")
    block = os.urandom(1 << 20)
    write("large", b"".join(block[i:] + block[:i] for i in range(SLICE // len(block) + 3)) + b"!")
    write("exactly four MiB", block * 4)
    for i in range(300):
        write(f"many/{i}", block[i : i + i * i % 5000])
    write("sparse", b"")
    os.truncate(root / "sparse", 8 << 20)
    with open(root / "sparse", "r+b") as file:
        file.seek(5 << 20)
        file.write(b"x")
    write("modes/run", b"#!/bin/sh\n", 0o755)
    write("modes/group", b"group", 0o640)
    write("modes/read", b"read", 0o400)
    write("modes/none of others", b"all", 0o660)
    write("times/before 1970", b"old", nanoseconds=-1_500_000_000)
    write("times/later than 32 bits", b"new", nanoseconds=5 * 10**18 + 1)
    (root / "links").mkdir()
    (root / "links/to a file").symlink_to("../empty")
    (root / "links/to a folder").symlink_to("../many")
    (root / "links/to nothing").symlink_to("nowhere at all")
    write("locked/file", b"kept")
    os.utime(root / "locked", ns=(10**18, 10**18 + 5))
    os.chmod(root / "locked", 0o555)


def facts(root: pathlib.Path) -> dict[bytes, tuple]:
    """What there is, name by name: kind, mode, time, and a link's target. The root is the user's own."""
    base = os.fsencode(root)
    found = {}
    for folder, directories, files in os.walk(base):
        for name in (*directories, *files):
            path = os.path.join(folder, name)
            info = os.lstat(path)
            relative = os.path.relpath(path, base)
            if os.path.islink(path):
                found[relative] = "link", os.readlink(path)
            elif os.path.isdir(path):
                found[relative] = "folder", oct(info.st_mode), info.st_mtime_ns
            else:
                found[relative] = "file", oct(info.st_mode), info.st_mtime_ns, info.st_size
    return found


def require_same(source: pathlib.Path, copy: pathlib.Path) -> None:
    wanted, found = facts(source), facts(copy)
    for name in sorted(wanted.keys() | found.keys()):
        require(wanted.get(name) == found.get(name), f"{name!r}: {found.get(name)}, and not {wanted.get(name)}")
    for name, fact in wanted.items():
        if fact[0] == "file":
            one, other = (os.path.join(os.fsencode(root), name) for root in (source, copy))
            with open(one, "rb") as first, open(other, "rb") as second:
                while block := first.read(1 << 20):
                    require(block == second.read(1 << 20), f"{name!r}: other bytes than were served")


def remove(root: pathlib.Path) -> None:
    """Also what nobody may write to."""
    if root.is_dir():
        for folder, _, _ in os.walk(root):
            os.chmod(folder, 0o755)
    subprocess.run(["rm", "-rf", "--", str(root)], check=True)


def pairs(there: list[Program], source: pathlib.Path, work: pathlib.Path) -> None:
    for path in PATHS:
        for server, stop in zip(there, [signal.SIGINT, signal.SIGTERM] * len(there)):
            with serving(server, source, path, stop) as (uri, _):
                for client in there:
                    began, copy = time.monotonic(), work / "copy"
                    run = client.run("fetch", uri, copy, path=path)
                    what = f"{path}: {server.name} to {client.name}"
                    require(run.returncode == 0, f"{what}: exit status {run.returncode}\n{run.stdout}{run.stderr}")
                    try:
                        require_same(source, copy)
                    except Failed as failure:
                        raise Failed(f"{what}: {failure}") from None
                    remove(copy)
                    left = sorted(path.name for path in work.iterdir() if path != source)
                    require(not left, f"{what}: leaves {left}")
                    ok(f"{what}: the same, {time.monotonic() - began:.1f} s")


# ---- mistakes ----


def complaint(what: str, run: subprocess.CompletedProcess, words: str) -> None:
    """A run must have failed, and said why in one line."""
    require(run.returncode != 0, f"{what}: succeeds")
    require(run.returncode > 0, f"{what}: ended by signal {-run.returncode}")
    lines = [line for line in run.stderr.splitlines() if line.strip() and not BAR.search(line)]
    require(len(lines) == 1 and not TRACE.search(run.stderr), f"{what}: one line is wanted, not\n{run.stderr}")
    require(re.search(words, lines[0]) is not None, f"{what}: {words!r} is wanted, not: {lines[0]}")
    ok(f"{what}: {lines[0]}")


@contextlib.contextmanager
def lending(build: pathlib.Path, **regions: pathlib.Path):
    words = [f"tree/{name}={path}" for name, path in regions.items()]
    pipe = subprocess.PIPE
    with subprocess.Popen([str(build / "tests/clients/clients_lend"), *words], stdin=pipe, stdout=pipe,
                          text=True) as process:
        yield read_uri(process, "lend")
        process.stdin.close()
    require(process.returncode == 0, f"lend: {process.returncode}")


def wrong_words(program: Program, build: pathlib.Path, small: pathlib.Path, work: pathlib.Path) -> None:
    name, copy = program.name, work / "copy"
    complaint(f"{name}: no folder", program.run("serve", work / "nowhere"), "nowhere")
    complaint(f"{name}: no URI", program.run("fetch", "tcp:/nonsense", copy), "tcp:/nonsense")
    complaint(f"{name}: nobody there", program.run("fetch", "tcp://127.0.0.1:1", copy), r"127\.0\.0\.1:1\b")
    with lending(build) as uri:
        complaint(f"{name}: no tree there", program.run("fetch", uri, copy), "(?i)manifest|notfound|no tree")
        complaint(f"{name}: a port that is taken", program.run("serve", small, "--listen", uri),
                  re.escape(uri.rpartition(":")[2]))
    with serving(program, small, "local") as (uri, process):
        full = work / "full"
        full.mkdir()
        (full / "mine").write_text("mine")
        complaint(f"{name}: a folder that is not empty", program.run("fetch", uri, full), "empty")
        require([path.name for path in full.iterdir()] == ["mine"], f"{name}: the folder is not as it was")
        require((full / "mine").read_text() == "mine", f"{name}: the file is not as it was")
        remove(full)
        process.kill()
        process.wait()
    complaint(f"{name}: a server that was killed", program.run("fetch", uri, copy), re.escape(uri.rpartition(":")[2]))
    require(sorted(work.iterdir()) == [small], f"{name}: leaves {sorted(work.iterdir())}")


def killed_meanwhile(program: Program, big: pathlib.Path, work: pathlib.Path) -> None:
    """The server is killed when the first byte may have come; a fetch that was faster is tried again."""
    inside = work / "inside"
    for _ in range(10):
        remove(inside)
        inside.mkdir()
        with serving(program, big, "tcp") as (uri, server):
            fetch = program.start("fetch", uri, inside / "copy", path="tcp", stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            while fetch.poll() is None and not any(inside.iterdir()):
                time.sleep(0.001)
            server.kill()
            server.wait()
            try:
                out, err = fetch.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                fetch.kill()
                raise Failed(f"{program.name}: a fetch goes on without its server") from None
        if fetch.returncode != 0:
            run = subprocess.CompletedProcess(fetch.args, fetch.returncode, out, err)
            complaint(f"{program.name}: a server that is killed meanwhile", run, ".")
            require(not (inside / "copy").exists(), f"{program.name}: what is not complete has its name")
            remove(inside)
            return
        require_same(big, inside / "copy")
    raise Failed(f"{program.name}: no fetch was slow enough to lose its server")


def has_bar(program: Program, small: pathlib.Path, work: pathlib.Path) -> None:
    """On a terminal, not elsewhere (the one of C has lines there)."""
    mine, theirs = pty.openpty()
    with serving(program, small, "local") as (uri, _):
        fetch = program.start("fetch", uri, work / "copy", stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while block := os.read(mine, 4096):
                shown += block
        require(fetch.wait(LIMIT) == 0, f"{program.name}: fails on a terminal: {shown!r}")
        require(b"\r" in shown and b"#" in shown, f"{program.name}: no bar on a terminal: {shown!r}")
        os.close(mine)
        remove(work / "copy")
        quiet = program.run("fetch", uri, work / "copy")
        require(program.name == "c" or not quiet.stderr, f"{program.name}: a bar in a file: {quiet.stderr}")
        remove(work / "copy")
    ok(f"{program.name}: a bar on a terminal")


# ---- manifests that are lies ----

FOLDER, LINK, FILE = range(3)


def manifest(*entries: tuple[int, bytes, int, int, bytes], count: int | None = None) -> bytes:
    """Of entries (kind, path, offset, size, target); `count`: how many it says there are."""
    data = struct.pack("<8sQQQ", b"xfertre2", len(entries) if count is None else count, 8, 8)
    for kind, path, offset, size, target in entries:
        path, target = path + b"\0", target + b"\0" if target else b""
        data += struct.pack("<QQqIHHII", offset, size, 0, 0, kind, 0o644, len(path), len(target)) + path + target
    return data


def file(path: bytes, offset: int = 0, size: int = 8) -> tuple[int, bytes, int, int, bytes]:
    return FILE, path, offset, size, b""


LIES = {
    "a path that leads out": manifest(file(b"../out")),
    "a path that leads out further in": manifest((FOLDER, b"in", 0, 0, b""), file(b"in/../../out")),
    "an absolute path": manifest(file(b"/tmp/out")),
    "a path of nothing": manifest(file(b"")),
    "a path of a dot": manifest((FOLDER, b".", 0, 0, b"")),
    "a path with a gap": manifest((FOLDER, b"in", 0, 0, b""), file(b"in//out")),
    "a folder that is not listed": manifest(file(b"in/out")),
    "a file in a link": manifest((LINK, b"in", 0, 0, b".."), file(b"in/out")),
    "a file past the end": manifest(file(b"out", 1, 8)),
    "a size that wraps": manifest(file(b"out", 8, 2**64 - 8)),
    "a kind that is none": manifest((3, b"out", 0, 0, b"")),
    "a NUL in a path": manifest(file(b"o\0ut")),
    "more entries than there are": manifest(file(b"out"), count=2),
    "2^60 entries": manifest(file(b"out"), count=2**60),
    "no magic": b"xfertre9" + manifest(file(b"out"))[8:],
    "half a header": manifest()[:20],
}


def lies(there: list[Program], build: pathlib.Path, work: pathlib.Path) -> None:
    data, told = work / "data", work / "told"
    data.write_bytes(b"8 bytes.")
    told.write_bytes(manifest(file(b"out")))
    with lending(build, manifest=told, data=data) as uri:
        for program in there:
            run = program.run("fetch", uri, work / "copy")
            require(run.returncode == 0, f"{program.name}: a manifest that is true: {run.stderr}")
            require((work / "copy/out").read_bytes() == b"8 bytes.", f"{program.name}: other bytes")
            remove(work / "copy")
    for what, lie in LIES.items():
        told.write_bytes(lie)
        inside = work / "inside"
        with lending(build, manifest=told, data=data) as uri:
            for program in there:
                inside.mkdir()
                complaint(f"{program.name}: {what}", program.run("fetch", uri, inside / "copy"), ".")
                require(not list(inside.iterdir()), f"{program.name}: {what}: leaves {list(inside.iterdir())}")
                require(sorted(work.iterdir()) == [data, inside, told], f"{program.name}: {what}: was written outside")
                inside.rmdir()
    data.unlink()
    told.unlink()


def main(build: pathlib.Path) -> int:
    failures: list[Failed] = []

    def part(run, *arguments) -> None:
        try:
            run(*arguments)
        except Failed as failure:
            print(f"FAILED: {failure}", flush=True)
            failures.append(failure)
        for left in work.iterdir():  # of what failed
            if left not in kept:
                remove(left)

    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        work = top / "work"
        work.mkdir()
        kept: list[pathlib.Path] = []
        there = programs(build, work)
        source = work / "source"
        source.mkdir()
        grow(source)
        kept = [source]
        part(pairs, there, source, work)
        remove(source)
        part(lies, there, build, work)
        small, big = work / "small", top / "big"
        small.mkdir()
        (small / "one").write_text("one")
        kept = [small]
        big.mkdir()
        (big / "file").write_bytes(os.urandom(1 << 20) * 256)
        for program in there:
            part(wrong_words, program, build, small, work)
            part(has_bar, program, small, work)
            part(killed_meanwhile, program, big, work)
    print(f"{len(passed)} passed, {len(failures)} failed, {len(skipped)} skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
    except Failed as failure:
        sys.exit(str(failure))
