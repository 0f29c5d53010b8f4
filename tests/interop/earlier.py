# SPDX-License-Identifier: Apache-2.0
"""An earlier release and today's library meet, as server and client and the other way round.

The last line of `released` names the release. Its library is built from the repository's history into
build/earlier/<version>, once; peer.c is compiled against both. Usage: earlier.py PEER BUILD_FOLDER
PEER is today's peer. Exits 77, with the reason, where the history is not at hand.
"""

import os
import pathlib
import queue
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PATIENCE = 30  # seconds
TOLD = [
    "notify 7 XFER_OK, bytes equal",
    "notify 8 XFER_OK, bytes equal",
    "notify 9 XFER_OK",
    "down XFER_ECLOSED",
]


def skip(why):
    print(f"skip: {why}")
    sys.exit(77)


def git(*arguments, **more):
    return subprocess.run(["git", "-c", "safe.directory=*", "-C", ROOT, *arguments], capture_output=True, **more)


def last_release():
    lines = [line.split() for line in (HERE / "released").read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line and line[0] != "#"][-1]


def build(version, commit, folder):
    """The peer that is linked with the library of that commit."""
    peer, built_from = folder / "peer", folder / "commit"
    source, tree = folder / "source", folder / "build"
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
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", "-O1", f"-I{source}/include", "-o", peer, HERE / "peer.c",
                    f"-L{tree}/lib", "-lxfer", f"-Wl,-rpath,{tree}/lib"], check=True)
    return peer


class Server:
    def __init__(self, peer):
        self.process = subprocess.Popen([peer, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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


def meet(server_peer, client_peer):
    server = Server(server_peer)
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
        server.process.kill()


def main():
    today, folder = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    version, commit = last_release()
    earlier = build(version, commit, folder / version)
    for what, server, client in (
        ("today's server, today's client", today, today),
        (f"{version} server, today's client", earlier, today),
        (f"today's server, {version} client", today, earlier),
    ):
        print(what, flush=True)
        meet(server, client)


if __name__ == "__main__":
    main()
