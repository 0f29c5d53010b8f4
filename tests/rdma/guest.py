#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command where there is RDMA: in a virtual machine with Soft-RoCE, the kernel's own driver of verbs.

usage: guest.py [--pair | --two] [--memory MB] [--limit SECONDS] [--env NAME]... COMMAND [ARGUMENT]...

The guest sees this host's files; what it writes is dropped at its end. See README.md beside this file.
The exit status is the command's, or 77 if no guest can be had here, 124 over the limit, 125 if a guest failed.
"""

import argparse
import base64
import ctypes
import json
import os
import re
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import time

import kernel

SKIPPED, OVER_LIMIT, FAILED = 77, 124, 125
BOOT_SECONDS = 120
CONSOLE_BYTES = 1 << 16
# What of the environment a command in the guest sees; no credentials.
KEPT = re.compile(
    r"PATH|HOME|USER|TERM|LANG|LC_.*|TZ|CI|LD_LIBRARY_PATH|LD_PRELOAD|(A|L|UB|T)SAN_OPTIONS|MALLOC_.*|GLIBC_TUNABLES|"
    r"PYTHON.*|VIRTUAL_ENV|CTEST_.*|DOCTEST_.*|CMOCKA_.*|RUST.*|GO.*|XFER_.*|IBV_.*|RDMAV_.*"
)
COMPLAINT = re.compile(r"BUG:|WARNING:|Oops|Kernel panic|Out of memory|rcu.*stall|soft lockup")


class Ended(Exception):
    """The run ends with this status."""

    def __init__(self, status, why):
        super().__init__(why)
        self.status = status


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def command_text(options):
    """What the shell of the guest reads."""
    kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name) or name in options.env}
    kept["PATH"] = kernel.PATH
    lines = [f"export {name}={shlex.quote(value)}" for name, value in kept.items()]
    lines += [
        "export XFER_GUEST=$INDEX XFER_GUEST_ADDRESS=10.9.0.$((INDEX + 1)) XFER_GUEST_PEER=10.9.0.$((2 - INDEX))",
        f"cd {shlex.quote(os.getcwd())} || exit 126",
        shlex.join(options.command),
    ]
    return "\n".join(lines) + "\n"


class Guest:
    """One virtual machine. Nothing of it lies in a file: all it says and hears goes over sockets."""

    PORTS = ("words", "out", "err", "console", "monitor")

    def __init__(self, index, options, folder, initramfs, cable):
        self.index = index
        self.up = self.off = False
        self.status = None
        self.taken = {"out": 0, "err": 0}  # bytes
        self.told = {}  # the same, as the guest counts them at its end
        self.said = b""
        self.line = b""  # unfinished, of guest 1
        self.console = bytearray()
        pairs = {port: socket.socketpair() for port in self.PORTS}
        self.ports = {port: pair[0] for port, pair in pairs.items()}
        theirs = {port: pair[1].fileno() for port, pair in pairs.items()}
        argv = self._machine(options, folder, initramfs) + self._devices(theirs, cable)
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=theirs["console"], stderr=theirs["console"], start_new_session=True,
            pass_fds=[*theirs.values(), initramfs, *([cable.fileno()] if cable else [])], preexec_fn=die_with_parent,
        )
        for _, end in pairs.values():
            end.close()
        self.monitor("qmp_capabilities")

    def _machine(self, options, folder, initramfs):
        # With one processor, two processes that spin see each other once in 4 ms.
        processors = 2 if not options.two or (os.cpu_count() or 1) >= 4 else 1
        words = "console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr tsc=reliable random.trust_cpu=on audit=0"
        return [
            kernel.program("qemu-system-x86_64"), "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
            "-machine", "pc", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(processors),
            "-m", str(options.memory), "-kernel", str(folder / "kernel"), "-initrd", f"/proc/self/fd/{initramfs}",
            "-append", f"{words} INDEX={self.index} GUESTS={1 + options.two} PAIR={int(options.pair)}",
            "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
        ]

    def _devices(self, theirs, cable):
        argv = ["-device", "virtio-serial-pci"]
        for number, port in enumerate(self.PORTS, 1):
            argv += ["-chardev", f"socket,id={port},fd={theirs[port]}"]
            if number <= 3:
                argv += ["-device", f"virtserialport,nr={number},chardev={port},name={port}"]
        argv += ["-serial", "chardev:console", "-mon", "chardev=monitor,mode=control"]
        if not cable:
            return [*argv, "-nic", "none"]
        nic = f"virtio-net-pci,id=nic,netdev=cable,romfile=,host_mtu=9000,mac=52:54:00:0a:09:0{self.index + 1}"
        return [*argv, "-netdev", f"socket,id=cable,fd={cable.fileno()}", "-device", nic]

    def monitor(self, command, **arguments):
        self.ports["monitor"].sendall(json.dumps({"execute": command, "arguments": arguments}).encode())

    def lines(self, data):
        """The lines of its words that are whole."""
        *whole, self.said = (self.said + data).split(b"\n")
        return [line.decode(errors="replace").partition(" ")[::2] for line in whole]

    def failed(self, why):
        lines = self.console_lines()
        first = self.complaint_at(lines)
        shown = lines[-30:] if first is None else lines[first:first + 30]
        return Ended(FAILED, "\n    | ".join([f"guest {self.index}: {why}", *shown]))

    def console_lines(self):
        return self.console.decode(errors="replace").splitlines()

    @staticmethod
    def complaint_at(lines):
        return next((at for at, line in enumerate(lines) if COMPLAINT.search(line)), None)


class Run:
    def __init__(self, options):
        self.options = options
        self.guests = []
        self.began = time.monotonic()
        self.selector = selectors.DefaultSelector()

    def boot(self):
        folder = kernel.prepare()
        # After what the first run fetches: the limit is the command's.
        signal.alarm(self.options.limit)
        initramfs = os.memfd_create("initramfs")
        with open(initramfs, "wb", closefd=False) as file:
            file.write(kernel.initramfs(folder))
        cables = socket.socketpair() if self.options.two else [None]
        for index, cable in enumerate(cables):
            guest = Guest(index, self.options, folder, initramfs, cable)
            self.guests.append(guest)
            for port, end in guest.ports.items():
                self.selector.register(end, selectors.EVENT_READ, (guest, port))
        for cable in filter(None, cables):
            cable.close()
        os.close(initramfs)
        self.began = time.monotonic()

    def until_ended(self):
        """The exit status. The run lasts as long as the command of guest 0, and what it said."""
        first = self.guests[0]
        while first.status is None or any(first.taken[port] < count for port, count in first.told.items()):
            self._take(1)
            if time.monotonic() > self.began + BOOT_SECONDS:
                for guest in self.guests:
                    if not guest.up:
                        raise guest.failed(f"not up after {BOOT_SECONDS} s")
        for guest in self.guests:
            self._pass_on(guest, b"", True)
        return first.status or self.guests[-1].status or 0

    def _take(self, seconds):
        """Takes what comes within that time."""
        for key, _ in self.selector.select(seconds):
            guest, port = key.data
            try:
                data = key.fileobj.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if port in guest.taken:
                guest.taken[port] += len(data)
            if not data:
                self.selector.unregister(key.fileobj)
                self._closed(guest, port)
            elif port == "words":
                for word, rest in guest.lines(data):
                    self._hear(guest, word, rest)
            elif port == "out":
                self._pass_on(guest, data, guest.index == 0)
            elif port == "err":
                write(2, data)
            elif port == "console":
                guest.console += data
                del guest.console[:-CONSOLE_BYTES]

    def _closed(self, guest, port):
        if port == "words" and not guest.off:
            raise guest.failed("it ended without a status")
        if port == "words" and guest.status is None:
            guest.status = 0

    def _hear(self, guest, word, rest):
        if word == "up":
            guest.up = True
            if all(each.up for each in self.guests):
                text = base64.b64encode(command_text(self.options).encode()) + b"\n"
                for each in self.guests:
                    each.ports["words"].sendall(text)
        elif word == "exit":
            guest.status, guest.told["out"], guest.told["err"] = map(int, rest.split())
        elif word == "fail":
            raise guest.failed(rest)
        elif word == "cable" and rest in ("up", "down"):
            for each in self.guests:
                each.monitor("set_link", name="cable", up=rest == "up")
        elif word == "cable" and rest == "off":
            other = self.guests[1 - guest.index]
            other.off = True
            other.monitor("quit")
            # A port without a neighbour has no carrier. QEMU then drops what the NIC sends, but a frame that waits for room
            # in the socket ends only when its machine stops: those behind it would fill the NIC's queue, and Soft-RoCE,
            # which waits for them, would have nothing to retry.
            guest.monitor("set_link", name="cable", up=False)
            guest.monitor("stop")
            guest.monitor("cont")

    def _pass_on(self, guest, data, whole):
        """Lines of guest 1 are marked, so they are passed on only when they are whole."""
        if guest.index == 0:
            return write(1, data)
        *lines, guest.line = (guest.line + data).split(b"\n")
        if whole and guest.line:
            lines.append(guest.line)
            guest.line = b""
        return write(1, b"".join(b"[1] " + line + b"\n" for line in lines))

    def close(self):
        for guest in self.guests:
            guest.process.kill()
        for guest in self.guests:
            guest.process.wait()
            lines = guest.console_lines()
            first = guest.complaint_at(lines)
            if first is not None:
                print(f"guest {guest.index}: its kernel says: {lines[first]}", file=sys.stderr)


def write(to, data):
    while data:
        data = data[os.write(to, data):]


def end_on_signals():
    numbers = {signal.SIGALRM: OVER_LIMIT, **{n: 128 + n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}}

    def end(number, _):
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise Ended(numbers[number], f"ended by {signal.Signals(number).name}")

    for number in numbers:
        signal.signal(number, end)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--pair", action="store_true", help="also rxe1 and rxe2, which exchange real frames (v1, v2)")
    kind.add_argument("--two", action="store_true", help="two guests with a cable between them")
    parser.add_argument("--memory", type=int, default=2048, metavar="MB", help="of each guest (%(default)s)")
    parser.add_argument("--limit", type=int, default=300, metavar="SECONDS", help="of all, with the boot (%(default)s)")
    parser.add_argument("--env", action="append", default=[], metavar="NAME", help="a variable that is kept as well")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    options = parser.parse_args()
    if options.command[:1] == ["--"]:
        del options.command[0]
    if not options.command:
        parser.error("no COMMAND")
    return options


def main():
    run = Run(parse_arguments())
    end_on_signals()
    try:
        run.boot()
        return run.until_ended()
    except kernel.Missing as why:
        print(f"skipped: {why}")
        return SKIPPED
    except Ended as ended:
        print(f"guest.py: {ended}", file=sys.stderr)
        return ended.status
    finally:
        run.close()


if __name__ == "__main__":
    sys.exit(main())
