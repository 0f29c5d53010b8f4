# SPDX-License-Identifier: Apache-2.0
"""Earlier releases and today's library: they meet on the wire, and take each other's programs.

Each line of `released` names one. Its library is built from the repository's history into build/earlier/<version>,
once. peer.c and later.c are built with one version and run with the library of another. Usage:
earlier.py LIBRARY_FOLDER BUILD_FOLDER, where the first has today's library. Exits 77, with the reason, where the history
is not at hand.
"""

import os
import pathlib
import queue
import subprocess
import sys
import threading

import local

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PATIENCE = 30  # seconds
TOLD = [
    "notify 7 XFER_OK, bytes equal",
    "notify 8 XFER_OK, bytes equal",
    "recv 21 XFER_OK, bytes equal",
    "recv 22 XFER_OK, bytes equal",
    "notify 9 XFER_OK",
    "notify 10 XFER_OK",
    "down XFER_ECLOSED",
]
TCP, SHM = "tcp://127.0.0.1:0", f"shm://earlier-{os.getpid()}"
WAYS = (  # where the server listens, and what both may use
    ("by sockets", TCP, "loopback,tcp"),
    ("as neighbours that meet by TCP", TCP, "loopback,tcp,shm"),
    ("by shared memory", SHM, "loopback,shm"),
)


def skip(why):
    print(f"skip: {why}")
    sys.exit(77)


def git(*arguments, **more):
    return subprocess.run(["git", "-c", "safe.directory=*", "-C", ROOT, *arguments], capture_output=True, **more)


def releases():
    """[(version, commit, version of the segment)], oldest first."""
    lines = [line.split() for line in (HERE / "released").read_text(encoding="utf-8").splitlines()]
    return [tuple(line) for line in lines if line and line[0] != "#"]


def build(version, commit, folder):
    """(headers, library) of that commit."""
    built_from, source, tree = folder / "commit", folder / "source", folder / "build"
    if not built_from.exists() or built_from.read_text(encoding="utf-8") != commit:
        if git("merge-base", "--is-ancestor", commit, "HEAD").returncode != 0:
            skip(f"{version} ({commit}) is not in this history: a shallow clone?")
        subprocess.run(["rm", "-rf", folder], check=True)
        source.mkdir(parents=True)
        files = git("archive", commit, check=True).stdout
        subprocess.run(["tar", "-x", "-C", source], input=files, check=True)
        subprocess.run(["cmake", "-G", "Ninja", "-S", source, "-B", tree, "-DCMAKE_BUILD_TYPE=Release",
                        "-DXFER_TESTS=OFF", "-DXFER_EXAMPLES=OFF"], check=True)
        subprocess.run(["cmake", "--build", tree, "--target", "xfer"], check=True)
        built_from.write_text(commit, encoding="utf-8")
    return source / "include", tree / "lib"


def program(source, path, version, runs_with):
    """A program that was built with one version, and is run with the library of another."""
    headers, library = version
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", "-O1", f"-I{headers}", "-o", path, HERE / source,
                    f"-L{library}", "-lxfer", f"-Wl,-rpath,{runs_with}"], check=True)
    return path


class Server:
    def __init__(self, peer, at):
        self.process = subprocess.Popen([peer, "serve", at], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        self.uri = self.lines.get(timeout=PATIENCE)

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())

    def tells(self, wanted):
        told = self.lines.get(timeout=PATIENCE)
        if told != wanted:
            raise AssertionError(f"the server says '{told}', not '{wanted}'")

    def end(self):
        self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def kill(self):
        """It is gone then, and its name is free for the next server."""
        self.process.kill()
        self.process.wait(PATIENCE)


def meet(server_peer, client_peer, at):
    server = Server(server_peer, at)
    try:
        # The client closes first; then the server, with another client connected.
        subprocess.run([client_peer, "call", server.uri], check=True, timeout=PATIENCE)
        for line in TOLD:
            server.tells(line)
        waiting = subprocess.Popen([client_peer, "wait", server.uri], stdout=subprocess.PIPE, text=True)
        try:
            if waiting.stdout.readline() != "connected\n" or server.end() != 0 or waiting.wait(PATIENCE) != 0:
                raise AssertionError("the server did not close cleanly")
        finally:
            waiting.kill()
    finally:
        server.kill()


def meet_apart(server_peer, client_peer):
    """Neighbours whose segments differ: by shared memory alone they do not meet, and are told why."""
    server = Server(server_peer, SHM)
    try:
        call = subprocess.run([client_peer, "call", server.uri], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=PATIENCE)
        if call.returncode == 0 or "connect: XFER_EVERSION" not in call.stdout:
            raise AssertionError(f"neighbours of other versions: {call.returncode}, {call.stdout}")
    finally:
        server.kill()


def test(version, segment, folder, earlier, today):
    """`earlier` and `today` are (headers, library)."""
    mixed = (("today's program", today, today), (version, earlier, earlier),
             (f"a program of {version} with today's library", earlier, today),
             (f"today's program with the library of {version}", today, earlier))
    peers = []
    for number, (name, built_with, (_, library)) in enumerate(mixed):
        print(f"structs that are longer: {name}", flush=True)
        later = program("later.c", folder / f"later{number}", built_with, library)
        subprocess.run([later], check=True, timeout=PATIENCE)
        same_segment = library == today[1] or segment == local.VERSION
        peers.append((name, program("peer.c", folder / f"peer{number}", built_with, library), same_segment))
    (_, ours, _), *others = peers
    for way, at, transports in WAYS:
        os.environ["XFER_TRANSPORTS"] = transports
        print(f"{way}: today's, with itself", flush=True)
        meet(ours, ours, at)
        for name, other, same_segment in others:
            if at == SHM and not same_segment:
                print(f"{way}: not with {name}", flush=True)
                meet_apart(other, ours)
                meet_apart(ours, other)
                continue
            print(f"{way}: {name}, as server", flush=True)
            meet(other, ours, at)
            print(f"{way}: {name}, as client", flush=True)
            meet(ours, other, at)


def main():
    library, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    for version, commit, segment in releases():
        earlier = build(version, commit, folder / version)
        test(version, int(segment), folder / version, earlier, (ROOT / "include", library))


if __name__ == "__main__":
    main()
