# SPDX-License-Identifier: Apache-2.0
"""What run.sh runs in a guest.

usage: inside.py BUILD_DIR PART

The last line is `N passed, N failed, N skipped`. A program that ends early has failed, whatever it has said.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import suite

BUILD = Path(sys.argv[1])
SECONDS = 150  # of one program
RERUN_NOTHING = "XFER_TEST_NO_RERUN" in os.environ
SANITIZER = re.compile(r"Sanitizer: |runtime error: ")  # of whatever process
PYTEST = re.compile(r"^\d+ (?:passed|failed|skipped|error).* in [\d.]+s\b", re.M)
# Over the path: a pair of engines begins when bytes go by the adapter, so nothing passes over TCP alone.
PATH = {
    "XFER_TRANSPORTS": "loopback,tcp,rdma", "XFER_TEST_CARRIED_BY": "adapter", "XFER_TEST_QUICK": "1",
    "XFER_TEST_ROUNDS": "5", "LD_LIBRARY_PATH": str(BUILD / "lib"),
}
total = dict.fromkeys(suite.CASES, 0)


def counted(output, status):
    """The cases of a program, by what it says and how it ended."""
    cases = suite.count_cases(output)
    left = len(re.findall(suite.DOCTEST_SKIP, output, re.M))
    for line in PYTEST.findall(output):
        for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", line):
            cases["failed" if word == "error" else word] += int(number)
    cases["passed"], cases["skipped"] = cases["passed"] - left, cases["skipped"] + left
    if status or SANITIZER.search(output) or not any(cases.values()):
        cases["failed"] = cases["failed"] or 1
    return cases


def run_once(program, *arguments, folder=None, **environment):
    """(cases, output)"""
    ran = subprocess.run(
        ["timeout", str(SECONDS), str(program), *arguments], cwd=folder, env={**os.environ, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )
    return counted(ran.stdout, ran.returncode), ran.stdout


def passes_again(program, *arguments, **keywords):
    """True if it passes each time that it is run again: as tests/suite.py does it, which would boot a machine for it."""
    if RERUN_NOTHING or suite.NO_RERUN.match(Path(program).name):
        return False
    return not any(run_once(program, *arguments, **keywords)[0]["failed"] for _ in range(suite.RERUNS))


def run(program, *arguments, **keywords):
    """Runs it and counts its cases; what it says is shown if one has failed."""
    began = time.monotonic()
    cases, output = run_once(program, *arguments, **keywords)
    failed = cases["failed"]
    words = " ".join([Path(program).name, *arguments])
    if failed and passes_again(program, *arguments, **keywords):
        print(f"flaky: {words}: passed alone, twice")
        cases["passed"], cases["failed"] = cases["passed"] + failed, 0
    for kind, number in cases.items():
        total[kind] += number
    print(f"{words}: {cases['passed']} passed, {cases['failed']} failed, {time.monotonic() - began:.0f} s", flush=True)
    told = re.findall(r"^(?:\S+ MESSAGE: )?((?:figure|skip(?:ped)?): .*)", output, re.M)
    for text in [output] if failed else told:
        print(text, flush=True)


def skip(why):
    total["skipped"] += 1
    print(f"skipped: {why}")


def verbs(*arguments, **environment):
    run(BUILD / "tests/rdma/rdma_verbs", *arguments, **environment)


def engine(*arguments, **environment):
    run(BUILD / "tests/rdma/rdma_engine", *arguments, **environment)


def tests(folder, rows, **environment):
    """Programs of another suite, each with the names of its tests, over the path."""
    for name, names in rows:
        run(BUILD / f"tests/{folder}/{folder}_{name}", names, **{**PATH, **environment})


def network(nics, *words):
    for nic in nics:
        subprocess.run(["tc", "qdisc", "replace", "dev", nic, "root", "netem", "limit", "100000", *words], check=True)


# ---- the parts


def one():
    verbs("-ts=device,memory,window,operations,queue-pair,faults")


def path():
    pieces("*_sizes", "o", "both", "many", "lanes")
    order_and_ends()


def pieces(*names):
    tests("api", [("transfer", f"test_{name}*thread/1*") for name in names])


def order_and_ends():
    tests("api", [
        ("batch", "test_pages*poll/none*"), ("notify", "test_behind*loop/none*"),
        ("region", "test_quiet_after*poll/1*"), ("meeting", "test_both_at_once*poll/none*"),
    ])


def pair():
    devices = {"RDMA_TEST_NEAR": "rxe1", "RDMA_TEST_FAR": "rxe2"}
    verbs("-ts=device,operations,queue-pair,faults", "-tce=*GID that comes*", **devices)
    engine("-ts=engine-pair", **devices)
    rails()
    # Bare verbs retry for ever: Soft-RoCE counts retries by request, and one of 1 MiB may lose more packets than six. An
    # engine has its path opened again.
    for words in (["delay", "5ms"], ["loss", "2%"], ["delay", "5ms", "loss", "2%"]):
        network(["v1", "v2"], *words)
        verbs("-ts=operations", RDMA_TEST_RETRIES="7", **devices)
        engine("-ts=engine-pair", **devices, **({"RDMA_TEST_LOSS": "1"} if "loss" in words else {}))


def rails():
    """A second pair of NICs is as fast as the first one, so that both are of use, and goes down without it."""
    for words in ("ip link add v3 mtu 9000 type veth peer name v4 mtu 9000", "ip addr add 10.9.3.1/24 dev v3",
                  "ip link set v3 up", "ip link set v4 up", "rdma link add rxe3 type rxe netdev v3"):
        subprocess.run(words.split(), check=True)
    engine("-ts=engine-rails", RDMA_TEST_RAILS="rxe1,rxe3", RDMA_TEST_CUT="v3")


def two():
    """In the order of this list: the last case of `cable` takes the other guest's power."""
    programs = BUILD / "tests/rdma"
    if os.environ["XFER_GUEST"] == "1":
        with subprocess.Popen([programs / "rdma_owner"]):
            subprocess.run([programs / "rdma_peer", "--serve"], check=True)
    network(["d0"], "delay", "4ms", "loss", "1%")
    engine("-ts=engine-cable")
    subprocess.run(["tc", "qdisc", "delete", "dev", "d0", "root"], check=True)
    peer = {"RDMA_TEST_PEER": os.environ["XFER_GUEST_PEER"]}
    verbs("-ts=operations,faults", "-tc=*Elsewhere*,*peer is killed*", **peer)
    verbs("-ts=cable", **peer)


def api():
    """What runs as api_rdma_* with fake adapters; of most, one mode. Left out of those: atomic, whose words go by their
    owner. Left out of the others: checksum, which no adapter carries; lane_fall, which is of sockets, and takes minutes;
    unmapped, since what is unmapped stays an adapter's; deadline, whose put of 768 MiB has to move faster than an
    emulated machine moves it. Grants go by their owner, as Soft-RoCE does not hold a window to its range."""
    tests("api", [
        ("batch", "*"), ("ordered", "*poll/none*"), ("notify", "*loop/none*"), ("message", "*"),
        ("cancel", "*poll/none*"), ("grant", "*thread/1*"), ("region", "*"), ("quiet", "*poll/none*"),
        ("depth", "*"), ("bounds", "*thread/1*"), ("drain", "*loop/none*"), ("random", "*"), ("meeting", "test_both_at_once*"),
        ("transfer", "*thread/1*"), ("flush", "*loop/none*"),
    ], XFER_TEST_MODES="few", XFER_TEST_GRANTS_ARE_SERVED="1")


def contract():
    names = ("engine", "transfers", "batches", "messages", "regions", "cancels")
    tests("contract", [(name, "*") for name in names])
    # Not same_host_path, which is of another path.
    tests("contract", [("peers", name) for name in ("no_listener", "peer_*", "drain", "admit_and_refuse")])
    tests("crash", [
        ("initiator", "test_read_back*"), ("initiator", "test_killed*"), ("owner", "test_killed*"),
        ("owner", "test_survivor*"),
    ], XFER_TEST_MODES="few")
    python()
    perf()


def asan():
    """What has most of the library's own code in it, in a build with ASan and UBSan. Left out of `path` is `many`, whose
    threads keep a slow machine from answering its own retries."""
    devices = {"RDMA_TEST_NEAR": "rxe1", "RDMA_TEST_FAR": "rxe2"}
    verbs("-ts=memory,window,queue-pair,faults")
    engine("-ts=engine-pair", **devices)
    rails()
    pieces("*_sizes", "o", "both", "lanes")
    order_and_ends()


def python():
    """Left out is what builds the binding again, or forgets its engines in six processes, which lasts here, and what
    counts threads, which the kernel shows for a moment after they were joined; and what is about memory of a device."""
    venv, source = BUILD / "bindings/python/venv", BUILD / "bindings/python/source"
    if not (venv / "complete").exists():
        skip("the Python binding could not be built")
        return
    left_out = ("another_version", "drop_without_close", "open_close", "memory_of_a_device")
    names = " and not ".join(["contract", *left_out])
    run(
        venv / "bin/python", "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "-k", names,
        folder=source, PKG_CONFIG_PATH=str(BUILD / "pkgconfig"), **PATH,
    )


def perf():
    """xfer_perf compares the bytes by itself, and says what they went by."""
    program = BUILD / "examples/perf/xfer_perf"
    if not program.exists():
        skip("xfer_perf is not built")
        return
    adapter = "adapter (rxe0:1)"
    for words, what, path, unit in (
            ("put --size 64K --window 16", "puts of 64 KiB, 16 at once", adapter, "GB/s"),
            ("message --size 64", "a message of 64 bytes", adapter, "us"),
            ("message --size 1M", "a message of 1 MiB", adapter, "us"),
            ("latency --op atomic", "an atomic", adapter, "us")):
        result = perf_result(program, words)
        if result["path"] == path:
            total["passed"] += 1
            print(f"figure: xfer_perf, {what}, by {path}: {result['rows'][0]['xfer']['median']:.3f} {unit}")
        else:
            total["failed"] += 1
            print(f"xfer_perf {words}: the bytes went by {result['path']}")


def perf_result(program, words):
    with tempfile.NamedTemporaryFile() as file:
        always = "--rounds 1 --seconds 0.5 --transports loopback,tcp,rdma --json"
        command = ["timeout", str(SECONDS), program, *words.split(), *always.split(), file.name]
        ran = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        return json.load(file) if ran.returncode == 0 else {"path": "nothing"}


if __name__ == "__main__":
    {part.__name__: part for part in (one, path, pair, two, api, contract, asan)}[sys.argv[2]]()
    print(", ".join(f"{number} {kind}" for kind, number in total.items()))
