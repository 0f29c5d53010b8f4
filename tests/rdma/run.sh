#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Real verbs, in guests with Soft-RoCE. The last line is `N passed, N failed, N skipped`; where no guest can be had, all
# is skipped: exit status 77.
#
#   bash tests/rdma/run.sh [BUILD_DIR]          one guest, one device (build/gcc)
#   bash tests/rdma/run.sh --long [BUILD_DIR]   what takes longer: two devices, with delay and loss between them; two
#                                               guests and a cable that is pulled
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# In the guest: the programs' folder, and which part.
if [ "${1:-}" = --inside ]; then
    folder=$2
    verbs() { XFER_LOG=off timeout 150 "$folder/rdma_verbs" "$@"; }
    case $3 in
    one) verbs -ts=device,memory,operations,queue-pair,faults ;;
    pair)
        export RDMA_TEST_NEAR=rxe1 RDMA_TEST_FAR=rxe2
        network() {
            for nic in v1 v2; do tc qdisc replace dev $nic root netem limit 100000 "$@"; done
        }
        verbs -ts=device,operations,queue-pair,faults -tce='*GID that comes*'
        network delay 5ms
        verbs -ts=operations
        network loss 2%
        verbs -ts=operations
        ;;
    two)
        if [ "$XFER_GUEST" = 1 ]; then exec "$folder/rdma_peer" --serve; fi
        RDMA_TEST_PEER=$XFER_GUEST_PEER verbs -ts=operations,faults -tc='*Elsewhere*,*peer is killed*'
        RDMA_TEST_PEER=$XFER_GUEST_PEER verbs -ts=cable
        ;;
    esac
    exit 0
fi

parts=(one)
if [ "${1:-}" = --long ]; then
    parts=(pair two)
    shift
fi
case ${1:-} in -*) sed -n '3,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac
build=$(cd "${1:-$here/../../build/gcc}" && pwd) || exit
[ -x "$build/tests/rdma/rdma_verbs" ] || { echo "not built: cmake --build $build --target tests/rdma/all" >&2; exit 1; }
log=$(mktemp)
guest=
trap 'rm -f "$log"; [ -z "$guest" ] || kill "$guest"' EXIT
passed=0 failed=0 skipped=0

# count PART STATUS RUNS: what the programs of one guest say, of which there are RUNS.
count() {
    local p f s runs
    runs=$(grep -c '^\[doctest\] test cases' "$log")
    s=$(grep -cE '^\S+ MESSAGE: skipped' "$log")
    p=$(($(sed -nE 's/^\[doctest\] test cases: .*\| *([0-9]+) passed.*/\1/p' "$log" | paste -sd +) + 0 - s))
    f=$(($(sed -nE 's/^\[doctest\] test cases: .*\| *([0-9]+) failed.*/\1/p' "$log" | paste -sd +) + 0))
    # One of its programs ended early, or the guest did.
    if [ "$f" -eq 0 ] && { [ "$2" -ne 0 ] || [ "$runs" -ne "$3" ]; }; then f=1; fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    printf '%-5s %d passed, %d failed, %d skipped, %d s\n' "$1" "$p" "$f" "$s" $((SECONDS - began))
    sed -nE 's/.*MESSAGE: ((figure|skipped): .*)/\1/p' "$log"
    [ "$f" -eq 0 ] || sed 's/^/    | /' "$log"
}

for part in "${parts[@]}"; do
    began=$SECONDS
    case $part in
    one) runs=1 options=(--limit 170) ;;
    pair) runs=3 options=(--pair --limit 220) ;;
    two) runs=2 options=(--two --limit 220) ;;
    esac
    python3 "$here/guest.py" "${options[@]}" bash "$here/run.sh" --inside "$build/tests/rdma" "$part" >"$log" 2>&1 &
    guest=$!
    wait $guest
    status=$? guest=
    if [ $status -eq 77 ]; then
        cat "$log"
        exit 77
    fi
    count "$part" $status $runs
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
