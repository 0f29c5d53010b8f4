#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, and runs the tests.
#
#   bash tests/run.sh                what every change must pass; under 15 minutes on 2 cores, 25 with an empty compiler cache
#   bash tests/run.sh --quick        the inner loop: builds what changed, leaves out what is slow; under 2 minutes
#   bash tests/run.sh --sanitizers   ASan with UBSan, then TSan
#   bash tests/run.sh --guests       what takes longer of the real verbs in virtual machines, some of it with ASan, if that
#                                    is built; 12 minutes, on a busy machine 19
#   bash tests/run.sh --all          everything, with the tests that are labelled `long`
#
# A suite is a folder of tests/ (or examples/) with ctest tests; the label `slow` keeps a test out of --quick.
# A suite that takes longer than its budget is ended and has failed. Full output: build/logs/.
# A test that fails and then passes twice alone is flaky: it is told, its log is kept in build/logs/flaky/, and more
# than two in one run fail the run. Not so in crash, quiet, hostile and under a sanitizer: there it has failed.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit
unset XFER_LOG XFER_TRANSPORTS XFER_RDMA_DEVICES # tests set these where they want them
mode=${1:---default}
logs=$PWD/build/logs
rows=()
rerun= # the option of suite.py against it
waiting=4 # at once, of tests that mostly wait for deadlines: more than there are cores
waiting_most=7 # of the many of the API
passed=0 failed=0 skipped=0
flaky=${XFER_TEST_FLAKY:-0} max_flaky=2 # what an earlier part of the same run had counts too

# step NAME BUDGET COMMAND...: one row of the table. The counts are the last line of the command's output, if that is
# in the form of ours, else the command is one test. `reruns`: seconds that it may take on top, to run again what failed.
step() {
    local name=$1 budget=$2 log=$logs/$1.log began=$SECONDS status counts
    shift 2
    printf '%-18s ' "$name"
    timeout --kill-after=10 $((budget + ${reruns:-0})) "$@" >"$log" 2>&1 </dev/null
    status=$?
    local seconds=$((SECONDS - began))

    counts=$(tail -n 1 "$log" | sed -nE 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p')
    local p=0 f=0 s=0
    [ -n "$counts" ] && read -r p f s <<<"$counts"
    if [ $status -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    if [ $status -eq 0 ] && [ -z "$counts" ]; then p=1; fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    rows+=("$(printf '%-18s %7d %7d %8d %8d %7d' "$name" "$p" "$f" "$s" "$seconds" "$budget")")

    echo "$p passed, $f failed, $s skipped, $seconds s"
    grep -E '^(skipped|figure|flaky): ' "$log" | sed 's/^/    /'
    flaky=$((flaky + $(grep -c '^flaky: ' "$log")))
    if [ "$f" -ne 0 ]; then
        case $status in 124 | 137) echo "    ended: over its budget of $budget s" ;; esac
        if grep -q '^FAILED: ' "$log"; then sed -n '/^FAILED: /,$p' "$log"; else tail -n 60 "$log"; fi | sed 's/^/    | /'
    fi
    return $status
}

# tests_of FOLDER [arguments of ctest]: how many there are.
tests_of() {
    local folder=$1
    shift
    ctest --test-dir "$folder" -N "$@" | sed -n 's/^Total Tests: //p'
}

# suite NAME BUDGET BUILD FOLDER [arguments of ctest]: the tests of one folder of a build tree, if there are any. A suite
# of which this run leaves out all has a row, too.
suite() {
    local name=$1 budget=$2 folder=build/$3/$4
    shift 4
    [ -d "$folder" ] && [ "$(tests_of "$folder")" -ne 0 ] || return 0
    if [ "$(tests_of "$folder" "$@")" -eq 0 ]; then
        step "$name" "$budget" echo "0 passed, 0 failed, $(tests_of "$folder") skipped"
        echo "    skipped: all of $name, by its labels: see --all"
        return 0
    fi
    reruns=$((2 * budget)) step "$name" "$budget" python3 tests/suite.py --budget "$budget" $rerun "$folder" "$@"
}

build() { # preset, budget [targets]
    local preset=$1 budget=$2
    shift 2
    step "build-$preset" "$budget" bash -c "cmake --preset $preset && cmake --build --preset $preset ${*:+--target $*}"
}

default_suites() { # arguments of ctest
    local interop=60
    local consumer=240
    local clients=1200
    local rdma=240
    [ "$mode" = --all ] && rdma=1260 # with all guests
    [ "$mode" = --all ] && interop=900 # with an earlier release, whose library is built first
    [ "$mode" = --all ] && consumer=1800 # with a newcomer's clone, whose library is built
    [ "$mode" = --all ] && clients=3600 # with models, and a sanitizer's build of the crates
    suite abi 40 gcc tests/abi -j 2 "$@"
    suite lint 600 gcc tests/lint "$@"
    suite consumer $consumer gcc tests/consumer -j $waiting "$@"
    suite unit 90 gcc tests/unit -j 2 "$@"
    suite transport 30 gcc tests/transport -j 2 "$@"
    suite sim 300 gcc tests/sim -j 2 "$@"
    suite fuzz 45 gcc tests/fuzz -j 2 "$@"
    suite api 400 gcc tests/api -j $waiting_most "$@"
    suite contract 120 gcc tests/contract -j 2 "$@"
    suite crash 120 gcc tests/crash -j $waiting "$@"
    suite interop $interop gcc tests/interop "$@"
    suite hostile 300 gcc tests/hostile -j $waiting "$@"
    suite faults 180 gcc tests/faults -j $waiting "$@"
    suite examples 150 gcc examples -j 2 "$@"
    suite hello 400 gcc tests/hello -j 2 "$@"
    suite clients $clients gcc tests/clients -j 2 "$@"
    suite quickstart 90 gcc tests/quickstart "$@"
    suite perf 90 gcc tests/perf "$@"
    suite cuda 120 gcc tests/cuda "$@"
    suite rdma $rdma gcc tests/rdma "$@"
}

# All folders at once, so that what waits does so beside each other; random and repeated tests do less of it, and most
# dispatch modes are left out.
quick_suite() {
    XFER_TEST_QUICK=1 XFER_TEST_MODES=few suite quick 240 gcc . -j 6 -LE 'slow|long'
}

# Only what finds something is built and run: TSan nothing where one thread runs (simulated worlds, parsers, paths), nor what
# the API's tests show it at a smaller price (thousands of attackers, a child for each fault).
asan_suites() {
    suite asan-unit 240 asan tests/unit -j 2 -LE long
    suite asan-transport 240 asan tests/transport -j 2 -LE long
    XFER_TEST_QUICK=1 suite asan-sim 500 asan tests/sim -j 2 -LE long
    suite asan-fuzz 120 asan tests/fuzz -LE long
    XFER_TEST_QUICK=1 suite asan-api 600 asan tests/api -j $waiting_most -LE long
    suite asan-contract 500 asan tests/contract -j 2
    suite asan-clients 120 asan tests/clients
    # One of them compares with a bare loop, which says nothing under a sanitizer.
    suite asan-hostile 240 asan tests/hostile -j $waiting -E '^hostile-pressure$'
    # Of an engine without a peer, and of a first contact, they try each system call too, which takes minutes.
    suite asan-faults 240 asan tests/faults -j $waiting -E 'connect|open|listen'
}

tsan_suites() {
    suite tsan-unit 240 tsan tests/unit -j 2 -LE long
    # What TSan keeps of 4 GiB is more than the memory there is.
    XFER_TEST_QUICK=1 suite tsan-api 600 tsan tests/api -j $waiting_most -LE long -E '^api_big$'
    suite tsan-contract 500 tsan tests/contract -j 2
}

run_sanitizers() {
    local rerun=--no-rerun
    export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
    export TSAN_OPTIONS="second_deadlock_stack=1 die_after_fork=0 suppressions=$PWD/tests/tsan.supp"
    build asan 900 tests/{unit,transport,sim,fuzz,api,contract,hostile,faults,clients,rdma}/all && asan_suites
    build tsan 700 tests/{unit,api,contract}/all && tsan_suites
}

run_guests() {
    build gcc 600 tests/rdma/all || return
    if [ -d build/asan ]; then build asan 900 tests/rdma/all || return; fi # nothing to do behind --sanitizers
    suite guests 1400 gcc tests/rdma -L long
}

run_default() { # arguments of ctest
    build gcc 600 && default_suites "$@"
}

summary() {
    echo
    printf '%-18s %7s %7s %8s %8s %7s\n' suite passed failed skipped seconds budget
    printf '%s\n' "${rows[@]}"
    printf '%-18s %7d %7d %8d %8d\n\n' total $passed $failed $skipped $SECONDS
    echo "$flaky flaky"
    echo "$passed passed, $failed failed, $skipped skipped"
}

case $mode in
--default | --quick | --sanitizers | --guests | --all) ;;
*)
    sed -n '3,15s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
mkdir -p "$logs"
# What comes and how large it is can be read before it comes, not only in the log.
step install 180 bash -o pipefail -c 'bash tests/install.sh | tee >(cat >&3)' 3>&1
case $mode in
--default) run_default -LE long ;;
--quick) build gcc 600 && quick_suite ;;
--sanitizers) run_sanitizers ;;
--guests) run_guests ;;
--all) run_sanitizers; run_default ;; # guests run what the sanitizers have built
esac
[ $flaky -le $max_flaky ] || step "at-most-$max_flaky-flaky" 1 false
summary
[ $failed -eq 0 ]
