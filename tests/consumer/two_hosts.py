#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does what examples/two-hosts.md says, block by block, on hosts a and b: two network namespaces with a wire between
them, or where these are not allowed one host with one address. Each has a folder of its own.

The page's steps are `a` (to be run there), `a stays` (the same, left running), `a says` (what that must have printed by
now, line by line; "…" is whatever), `a ends` (it gets SIGTERM) and `a dies` (SIGKILL).

Usage: two_hosts.py namespaces|one_host SOURCE PREFIX
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from blocks import blocks

PATIENCE = 30
ADDRESSES = {"a": "192.0.2.1", "b": "192.0.2.2"}
# What a test has less time for, and no second machine.
SHIMS = {
    "xfer_perf": 'exec "$PREFIX/bin/xfer_perf" "$@" --rounds 1 --seconds 0.05',
    "scp": 'cp -p "$1" "../${2%%:*}/"',
}


class Host:
    def __init__(self, name: str, work: pathlib.Path, source: str, prefix: pathlib.Path) -> None:
        self.name, self.folder, self.enter, self.heard = name, work / name, [], 0
        self.running: subprocess.Popen | None = None
        self.space: subprocess.Popen | None = None
        self.folder.mkdir()
        (self.folder / "examples").symlink_to(f"{source}/examples")
        self.log = work / f"{name}.log"
        library = next(prefix.rglob("libxfer.so")).parent
        self.environment = os.environ | {
            "PATH": f"{work}/shims:{prefix}/bin:{os.environ['PATH']}",
            "PREFIX": str(prefix),
            "PKG_CONFIG_PATH": f"{library}/pkgconfig",
            "LD_LIBRARY_PATH": str(library),
        }

    def start(self, text: str) -> subprocess.Popen:
        with open(self.log, "a", encoding="utf-8") as log:
            return subprocess.Popen(
                [*self.enter, "bash", "-euc", text], cwd=self.folder, env=self.environment, stdout=log,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def run(self, text: str) -> None:
        if self.start(text).wait(timeout=10 * PATIENCE) != 0:
            raise AssertionError(f"host {self.name} failed: {text}")

    def stay(self, text: str) -> None:
        if self.running is not None and self.running.poll() is None:
            raise AssertionError(f"host {self.name} still runs what stays")
        self.running = self.start("exec " + text)

    def says(self, text: str) -> None:
        for line in text.splitlines():
            pattern = re.compile(".*".join(re.escape(part) for part in line.split("…")))
            end = time.monotonic() + PATIENCE
            while not (found := pattern.search(self.log.read_text(encoding="utf-8"), self.heard)):
                if time.monotonic() > end:
                    raise AssertionError(f"host {self.name} never said: {line}")
                time.sleep(0.05)
            self.heard = found.end()

    def end(self, number: signal.Signals) -> None:
        if self.running is None:
            return
        os.killpg(self.running.pid, number)
        self.running.wait(timeout=PATIENCE)
        self.running = None


def command(*words: str) -> bool:
    return subprocess.run(words, check=False).returncode == 0


def wire(hosts: dict[str, Host]) -> bool:
    """Puts each host into a network namespace; tells whether that is allowed here."""
    ours = os.readlink("/proc/self/ns/net")
    for host in hosts.values():
        host.space = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        while os.readlink(f"/proc/{host.space.pid}/ns/net") == ours:
            if host.space.poll() is not None:
                return False
            time.sleep(0.01)
        host.enter = ["nsenter", "-t", str(host.space.pid), "-n"]
    a, b = hosts.values()
    if not command(*a.enter, "ip", "link", "add", "wire", "type", "veth", "peer", "wire", "netns", str(b.space.pid)):
        return False
    return all(
        command(*host.enter, "ip", "address", "add", f"{ADDRESSES[name]}/24", "dev", "wire")
        and command(*host.enter, "ip", "link", "set", "wire", "up")
        and command(*host.enter, "ip", "link", "set", "lo", "up")
        for name, host in hosts.items()
    )


def on_one_host(text: str) -> str:
    """An address of loopback that no other test has."""
    number = os.getpid() % 65536
    for address in (*ADDRESSES.values(), "0.0.0.0"):
        text = text.replace(address, f"127.{number >> 8}.{number & 255}.1")
    return text


def play(page: str, hosts: dict[str, Host], namespaces: bool) -> int:
    steps = 0
    for block in blocks(page):
        if not block.test.startswith("consumer-two-hosts"):
            continue
        name, what = (block.words.split() + [""])[:2]
        host, text = hosts[name], block.text if namespaces else on_one_host(block.text)
        print(f"{page}:{block.line}: {block.words}", flush=True)
        acts = {"": host.run, "stays": host.stay, "says": host.says}
        if what in acts:
            acts[what](text)
        else:
            host.end({"ends": signal.SIGTERM, "dies": signal.SIGKILL}[what])
        steps += 1
    return steps


def main() -> int:
    way, source, prefix = sys.argv[1:]
    namespaces = way == "namespaces"
    if namespaces and os.geteuid() != 0 and "XFER_TEST_SPACE" not in os.environ:
        os.environ["XFER_TEST_SPACE"] = "1"
        os.execvp("unshare", ["unshare", "-Urn", sys.executable, *sys.argv])
    work = pathlib.Path(tempfile.mkdtemp())
    (work / "shims").mkdir()
    for name, text in SHIMS.items():
        (work / "shims" / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (work / "shims" / name).chmod(0o755)
    hosts = {name: Host(name, work, source, pathlib.Path(prefix)) for name in ADDRESSES}
    try:
        if namespaces and not wire(hosts):
            print("skip: network namespaces are not allowed here")
            return 77
        if not namespaces:
            for host in hosts.values():  # which are neighbours, if nobody forbids it
                host.environment["XFER_TRANSPORTS"] = "loopback,tcp"
        print(play(f"{source}/examples/two-hosts.md", hosts, namespaces), "steps")
        return 0
    except Exception:
        for host in hosts.values():
            print(f"--- {host.name}\n{host.log.read_text(encoding='utf-8') if host.log.exists() else ''}")
        raise
    finally:
        for host in hosts.values():
            host.end(signal.SIGKILL)
            if host.space is not None:
                host.space.kill()
                host.space.wait()
        shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
