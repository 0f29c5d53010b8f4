# SPDX-License-Identifier: Apache-2.0
"""A tree of files that is lent and fetched, as xfer_tree does it.

Two regions: "tree/data" has the bytes of all files, "tree/manifest" says where. On the wire, little
endian: "xfertre2", u64 entries, u64 bytes of data, u64 bytes on the disk, then for each entry u64
offset, u64 size, i64 seconds, u32 nanoseconds, u16 kind, u16 mode, u32 bytes of the path with its
NUL, u32 bytes of a link's target with its NUL, path, target. Directories come first, each behind
the one that it lies in, then links, then files, whose offsets rise.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import stat
import struct
import tempfile
from collections.abc import Iterator
from typing import BinaryIO, Callable, NamedTuple

from xfer._endpoint import Endpoint
from xfer._engine import Engine
from xfer._values import Access, Ref

MANIFEST, DATA = "tree/manifest", "tree/data"
MAGIC = b"xfertre2"
HEADER, ENTRY = struct.Struct("<8sQQQ"), struct.Struct("<QQqIHHII")
DIRECTORY, LINK, FILE = range(3)
SECOND = 1_000_000_000
MANIFEST_LIMIT = 1 << 30
GET, GETS = 4 << 20, 8  # bytes of one get, and how many are under way


class Entry(NamedTuple):
    kind: int
    path: bytes  # relative to the root of the tree
    mode: int  # permission bits
    time: int  # of the last modification, in nanoseconds
    offset: int = 0  # of a file's bytes in the data
    size: int = 0
    target: bytes = b""  # of a link


class Tree(NamedTuple):
    entries: list[Entry]
    length: int  # of the data
    disk: int = 0  # what the files take at the server

    @property
    def files(self) -> int:
        return sum(entry.kind == FILE for entry in self.entries)


# ---- the manifest ----


def encode(tree: Tree) -> bytes:
    parts = [HEADER.pack(MAGIC, len(tree.entries), tree.length, tree.disk)]
    for entry in tree.entries:
        path, target = entry.path + b"\0", entry.target + b"\0" if entry.target else b""
        seconds, rest = divmod(entry.time, SECOND)
        where = entry.offset, entry.size, seconds, rest
        parts.append(ENTRY.pack(*where, entry.kind, entry.mode, len(path), len(target)))
        parts += [path, target]
    return b"".join(parts)


def decode(data: bytes) -> Tree:
    """Believes nothing of it: ValueError."""
    try:
        magic, count, length, disk = HEADER.unpack_from(data)
    except struct.error:
        magic = b""
    if magic != MAGIC:
        raise ValueError("that is no manifest of this version")
    entries: list[Entry] = []
    directories, at, floor = {b""}, HEADER.size, 0
    for i in range(count):
        try:
            entry, at = _decode_entry(data, at)
        except struct.error:
            raise ValueError(f"the manifest ends in entry {i}") from None
        _check(entry, directories, floor, length)
        if entries and entries[-1].kind > entry.kind:
            raise ValueError("the manifest is out of order")
        if entry.kind == DIRECTORY:
            directories.add(entry.path)
        floor = entry.offset + entry.size if entry.kind == FILE else floor
        entries.append(entry)
    return Tree(entries, length, disk)


def _decode_entry(data: bytes, at: int) -> tuple[Entry, int]:
    offset, size, seconds, rest, kind, mode, path_size, target_size = ENTRY.unpack_from(data, at)
    at += ENTRY.size
    texts = data[at : at + path_size], data[at + path_size : at + path_size + target_size]
    if (len(texts[0]), len(texts[1])) != (path_size, target_size):
        raise struct.error
    for text in texts:
        if text and (not text.endswith(b"\0") or b"\0" in text[:-1]):
            raise ValueError("a text of the manifest is not whole")
    path, target = (text[:-1] for text in texts)
    time = seconds * SECOND + rest
    entry = Entry(kind, path, mode & 0o777, time, offset, size, target)
    return entry, at + path_size + target_size


def _check(entry: Entry, directories: set[bytes], floor: int, length: int) -> None:
    parent, _, _ = entry.path.rpartition(b"/")
    parts = entry.path.split(b"/")
    if b"" in parts or b"." in parts or b".." in parts or parent not in directories:
        raise ValueError(f"the manifest has an unsafe path: {entry.path!r}")
    if entry.kind == FILE:
        if not floor <= entry.offset <= length - entry.size:
            raise ValueError(f"the manifest has a file that is elsewhere: {entry.path!r}")
    elif entry.kind > FILE or entry.size or entry.offset:
        raise ValueError(f"the manifest has a thing of an unknown kind: {entry.path!r}")
    if bool(entry.target) != (entry.kind == LINK):
        raise ValueError(f"the manifest has a link to nothing: {entry.path!r}")


# ---- serve ----


@contextlib.contextmanager
def lend(engine: Engine, directory: str) -> Iterator[Tree]:
    """The tree is copied into an unlinked file, and lent until the end. OSError if the directory
    can't be read; what can't be read in it is left out."""
    os.listdir(directory)  # os.walk() would take what it can't read for empty
    with tempfile.TemporaryFile() as spool:
        tree = _pack(os.fsencode(directory), spool)
        spool.truncate(tree.length)
        with mmap.mmap(spool.fileno(), tree.length, access=mmap.ACCESS_READ) as data:
            lent = engine.region(data, DATA, Access.READ)
            with lent, engine.region(encode(tree), MANIFEST, Access.READ):
                yield tree


def _pack(root: bytes, spool: BinaryIO) -> Tree:
    found: list[Entry] = []
    disk = 0
    for folder, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = os.path.join(folder, name)
            info, relative = os.lstat(path), os.path.relpath(path, root)
            entry = Entry(FILE, relative, info.st_mode & 0o777, info.st_mtime_ns)
            if stat.S_ISDIR(info.st_mode):
                found.append(entry._replace(kind=DIRECTORY))
            elif stat.S_ISLNK(info.st_mode):
                found.append(entry._replace(kind=LINK, target=os.readlink(path)))
            elif stat.S_ISREG(info.st_mode):
                disk += info.st_blocks * 512
                found.append(entry)
    entries: list[Entry] = []
    for entry in sorted(found):
        if entry.kind != FILE:
            entries.append(entry)
            continue
        offset = spool.tell()
        with contextlib.suppress(PermissionError):  # what may not be read is left out
            with open(os.path.join(root, entry.path), "rb") as source:
                shutil.copyfileobj(source, spool, GET)
            entries.append(entry._replace(offset=offset, size=spool.tell() - offset))
    return Tree(entries, max(1, spool.tell()), disk)


# ---- fetch ----


def fetch(ep: Endpoint, destination: str, progress: Callable[[int, int], None]) -> Tree:
    """Brings a server's tree to `destination`, which must not exist or be an empty directory. It is
    there when it is whole. progress() is told how many bytes of how many have come."""
    found = ep.lookup(MANIFEST).result().ref
    if len(found) > MANIFEST_LIMIT:
        raise ValueError(f"a manifest of {len(found)} bytes is too large")
    manifest = bytearray(len(found))
    ep.get(manifest, found).result()
    tree = decode(bytes(manifest))
    data = ep.lookup(DATA).result().ref
    if len(data) < tree.length:
        raise ValueError("the data is shorter than the manifest says")
    if os.path.lexists(destination) and os.listdir(destination):
        raise FileExistsError(f"{destination} is not empty")
    parent = os.path.dirname(os.path.abspath(destination))
    partial = os.fsencode(tempfile.mkdtemp(prefix=".xfer-", dir=parent))
    try:
        _write(ep, data, tree, partial, progress)
        os.rename(partial, destination)
    except BaseException:
        shutil.rmtree(partial)
        raise
    return tree


def _write(
    ep: Endpoint, data: Ref, tree: Tree, root: bytes, progress: Callable[[int, int], None]
) -> None:
    for entry in tree.entries:
        if entry.kind == DIRECTORY:
            os.mkdir(os.path.join(root, entry.path))
    buffer, total, done = memoryview(bytearray(GET * GETS)), 0, 0
    total = sum(entry.size for entry in tree.entries)
    for entry in tree.entries:
        if entry.kind != FILE:
            continue
        path = os.path.join(root, entry.path)
        with open(path, "xb") as file:
            for start in range(0, entry.size, len(buffer)):
                length = min(len(buffer), entry.size - start)
                _get(ep, data, entry.offset + start, buffer[:length])
                file.write(buffer[:length])
                done += length
                progress(done, total)
        _finish(path, entry)
    for entry in tree.entries:  # when nothing can be written through them any more
        if entry.kind == LINK:
            os.symlink(entry.target, os.path.join(root, entry.path))
    for entry in reversed(tree.entries):
        if entry.kind == DIRECTORY:
            _finish(os.path.join(root, entry.path), entry)
    os.chmod(root, 0o755)


def _finish(path: bytes, entry: Entry) -> None:
    os.utime(path, ns=(entry.time, entry.time))
    os.chmod(path, entry.mode)


def _get(ep: Endpoint, data: Ref, offset: int, buffer: memoryview) -> None:
    gets = [
        ep.get(buffer[start : start + GET], data, offset + start)
        for start in range(0, len(buffer), GET)
    ]
    for get in gets:
        get.result()
