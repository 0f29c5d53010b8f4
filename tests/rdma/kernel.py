# SPDX-License-Identifier: Apache-2.0
"""The guest's kernel and its initramfs: Debian's own, as a distribution's package has them.

The package is fetched by apt-get, which needs no root for that, and never installed: its boot image and the modules
that the guest loads are kept in the cache (68 MB). `python3 kernel.py` fills it, `--list` tells what it would fetch.
"""

import fcntl
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "xfer-guest"
FOLDER = CACHE / "debian-6.1"
INIT = Path(__file__).with_name("guest_init.sh")
# crc32_pclmul is left out: emulated, it makes Soft-RoCE a fifth slower than the table of crc32_generic.
MODULES = (
    "crc32_generic virtio_pci virtio_console virtio_net 9pnet_virtio 9p overlay veth dummy "
    "rdma_rxe ib_uverbs rdma_cm rdma_ucm sch_netem"
).split()
# What these and their dependencies lie in.
FOLDERS = re.compile(
    r"\./lib/modules/[^/]+/(modules\.|kernel/(arch/x86/crypto|crypto|drivers/(block|char|infiniband|net|virtio)|fs|lib|net)/)"
)
PROGRAMS = ("qemu-system-x86_64", "busybox", "depmod", "modprobe", "dpkg-deb", "rdma", "ip", "tc", "bash")
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin"


class Missing(Exception):
    """No guest can be had on this machine, and why."""


def program(name):
    path = shutil.which(name, path=PATH)
    if not path:
        raise Missing(f"no {name}: see tests/install.sh")
    return path


def static_busybox():
    path = Path(program("busybox"))
    image = path.read_bytes()
    if b"ld-linux" in image[:4096]:  # the interpreter is named in the first page
        raise Missing(f"{path} is not static: see busybox-static in tests/install.sh")
    return image


def run(*command, **keywords):
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, **keywords)
    if done.returncode:
        raise Missing(f"{command[0]} failed: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    return done.stdout


def package():
    """(name, version, bytes) of the newest kernel that apt knows of."""
    depends = run("apt-cache", "depends", "linux-image-amd64")
    found = re.search(r"Depends: (linux-image-(6\.1\.0-\d+-amd64))$", depends, re.M)
    if not found:
        raise Missing("apt knows no kernel of Debian 12: apt-get update")
    size = re.search(r"^Size: (\d+)$", run("apt-cache", "show", "--no-all-versions", found[1]), re.M)
    return found[1], found[2], int(size[1]) if size else 0


def unpack(archive, tree):
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as reader:
        with tarfile.open(fileobj=reader.stdout, mode="r|") as members:
            for member in members:
                if FOLDERS.match(member.name) or member.name.startswith("./boot/vmlinuz-"):
                    members.extract(member, tree)


def plain_image(packed):
    """The kernel as an ELF file: the boot image unpacks itself, which is slow under emulation."""
    at = packed.find(b"\xfd7zXZ\x00")
    plain = lzma.LZMADecompressor(format=lzma.FORMAT_XZ).decompress(packed[at:]) if at >= 0 else b""
    return plain if plain.startswith(b"\x7fELF") else packed


def copy_modules(tree, version, to):
    """Named so that the order of their names is the order in which they load."""
    wanted = {}
    for module in MODULES:
        lines = run(program("modprobe"), "-d", tree, "-S", version, "--show-depends", module).splitlines()
        wanted.update((line.split()[1], None) for line in lines if line.startswith("insmod "))
    to.mkdir()
    for number, module in enumerate(wanted):
        shutil.copyfile(module, to / f"{number:02}-{Path(module).name}")


def fill(folder):
    name, version, size = package()
    print(f"fetching {name} ({size / 1e6:.0f} MB) into {CACHE}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        scratch = Path(scratch)
        run("apt-get", "-qq", "download", name, cwd=scratch)
        tree, kept = scratch / "tree", scratch / "kept"
        unpack(next(scratch.glob("*.deb")), tree)
        run(program("depmod"), "-b", tree, version)
        kept.mkdir()
        (kept / "kernel").write_bytes(plain_image((tree / f"boot/vmlinuz-{version}").read_bytes()))
        copy_modules(tree, version, kept / "modules")
        (kept / "names").write_text(" ".join(MODULES), encoding="ascii")
        shutil.rmtree(folder, ignore_errors=True)
        kept.rename(folder)


def is_there(folder):
    names = folder / "names"
    return names.exists() and names.read_text(encoding="ascii") == " ".join(MODULES)


def prepare():
    """The folder with `kernel` and `modules/`, filled if it has to be."""
    if os.uname().machine != "x86_64":
        raise Missing("guests are x86-64 only")
    for name in PROGRAMS:
        program(name)
    static_busybox()
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_there(FOLDER):
            fill(FOLDER)
    return FOLDER


def newc(entries):
    """An archive in cpio's newc format of (name, mode, bytes)."""
    out = bytearray()
    for number, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        out += b"070701" + "".join(f"{field:08X}" for field in fields).encode() + name.encode() + b"\0"
        out += bytes(-len(out) % 4)
        out += data
        out += bytes(-len(out) % 4)
    return bytes(out)


def initramfs(folder):
    entries = [(name, 0o040755, b"") for name in ("bin", "modules", "proc", "sys", "dev", "host", "tree", "memory")]
    entries += [("bin/busybox", 0o100755, static_busybox()), ("init", 0o100755, INIT.read_bytes())]
    entries += [(f"modules/{path.name}", 0o100644, path.read_bytes()) for path in sorted((folder / "modules").iterdir())]
    return newc(entries)


def main():
    try:
        if sys.argv[1:] != ["--list"]:
            prepare()
        elif not is_there(FOLDER):
            print(f"linux-image-amd64 (unpacked into {CACHE})")
    except Missing as why:
        sys.exit(f"no guest for tests/rdma: {why}")


if __name__ == "__main__":
    main()
