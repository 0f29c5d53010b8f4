# SPDX-License-Identifier: Apache-2.0
"""python -m xfer: what there is, whether a peer answers, and trees of files."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import xfer
from xfer import _tree

BAR = 40  # characters


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m xfer", description=__doc__)
    parser.add_argument("--key", metavar="FILE", help="secret of all members, 32 to 256 bytes")
    roles = parser.add_subparsers(required=True, metavar="ROLE")
    role = roles.add_parser("info", help="version, transports, kinds of memory, options")
    role.set_defaults(run=info)
    role = roles.add_parser("ping", help="connects to an engine, and measures round trips")
    role.add_argument("uri")
    role.add_argument("--count", type=int, default=5)
    role.set_defaults(run=ping)
    role = roles.add_parser("serve", help="lends the tree DIR until it is interrupted")
    role.add_argument("dir")
    role.add_argument("--listen", metavar="URI", default="tcp://127.0.0.1:0")
    role.set_defaults(run=serve)
    role = roles.add_parser("fetch", help="brings a server's tree to DEST, which is new or empty")
    role.add_argument("uri")
    role.add_argument("dest")
    role.set_defaults(run=fetch)
    given = parser.parse_args(arguments)
    options: dict[str, Any] = {"checksum": True}  # what is fetched is verified
    try:
        if given.key:
            options["key"] = Path(given.key).read_bytes()
        with xfer.Engine(**options) as engine:
            given.run(engine, given)
    except (OSError, ValueError) as error:
        print(f"xfer: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def info(engine: xfer.Engine, given: argparse.Namespace) -> None:
    print(f"libxfer {xfer.__version__}")
    print("transports:", ", ".join(xfer.Transport(n).name.lower() for n in engine.transports))
    print("memory:", ", ".join(xfer.Memory(n).name.lower() for n in engine.kinds))
    print("options of an engine:")
    for option in xfer.engine_options():
        print(f"  {option.name:16} {option.values:24} {option.help}")


def ping(engine: xfer.Engine, given: argparse.Namespace) -> None:
    with engine.endpoint(given.uri) as ep:
        ep.connect().result()
        print(f"{ep.peer.id} at {ep.peer.address}")
        for _ in range(given.count):
            print(f"{ep.probe().result() * 1e6:.1f} µs", flush=True)


def serve(engine: xfer.Engine, given: argparse.Namespace) -> None:
    signal.signal(signal.SIGTERM, _interrupt)
    with _tree.lend(engine, given.dir) as tree:
        uri = engine.listen(given.listen)
        print(f"serving {tree.files} files, {tree.length / 1e6:.1f} MB of {given.dir}")
        print(f"listening at {uri}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            engine.wait_for(lambda: False)


def _interrupt(number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt


def fetch(engine: xfer.Engine, given: argparse.Namespace) -> None:
    began = time.monotonic()
    with engine.endpoint(given.uri) as ep:
        ep.connect().result()
        tree = _tree.fetch(ep, given.dest, _progress if sys.stderr.isatty() else _nothing)
    seconds = time.monotonic() - began
    print(f"fetched {tree.files} files, {tree.length / 1e6:.1f} MB in {seconds:.2f} s")


def _progress(done: int, total: int) -> None:
    bar = "#" * (BAR * done // max(1, total))
    print(f"\r[{bar:{BAR}}] {done / 1e6:.1f} MB", end="", file=sys.stderr, flush=True)
    if done == total:
        print(file=sys.stderr)


def _nothing(done: int, total: int) -> None:
    """Without a terminal there is no bar."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
