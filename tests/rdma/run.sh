#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Real verbs, in guests with Soft-RoCE. The last line is `N passed, N failed, N skipped`; where no guest can be had, all
# is skipped: exit status 77.
#
#   bash tests/rdma/run.sh [BUILD_DIR]          one device (build/gcc): verbs, and some of the API over the path
#   bash tests/rdma/run.sh --long [BUILD_DIR]   what takes longer: two devices, with delay and loss between them; two
#                                               guests and a cable that is pulled; the API, the contract and crashes over
#                                               the path
#   bash tests/rdma/run.sh --asan [BUILD_DIR]   what there is most of the library in, built with ASan and UBSan
#                                               (build/asan); skipped if that is not built
#
# A guest that could not come to its end before XFER_TEST_UNTIL, in seconds since 1970, if that is set, is left out.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

preset=gcc parts=(one path)
case ${1:-} in
--long) parts=(pair two api contract) ;;
--asan) preset=asan parts=(asan two); export XFER_TEST_NO_RERUN=1 ;;
-*) sed -n '3,15s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
case ${1:-} in -*) shift ;; esac
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
build=${1:-$here/../../build/$preset}
if [ ! -x "$build/tests/rdma/rdma_owner" ]; then
    word= status=1
    [ $preset = gcc ] || word='skipped: ' status=77
    echo "${word}not built: cmake --preset $preset && cmake --build --preset $preset --target tests/rdma/all"
    exit $status
fi
build=$(cd "$build" && pwd) || exit
log=$(mktemp)
guest=
trap 'rm -f "$log"; [ -z "$guest" ] || kill "$guest"' EXIT
passed=0 failed=0 skipped=0

# The Python binding of this build, with what its tests need.
prepare_contract() {
    (
        set -e
        set -- "$build"
        here=$here/../../bindings/python
        . "$here/build.sh"
        get pytest numpy
    ) >"$log" 2>&1 || echo "skipped: the Python binding: $(tail -n 1 "$log")"
}

# count PART STATUS: what inside.py says of a part, in its last line; without one the guest did not come to its end. A
# sanitizer's report is a failure whoever it is of: nobody waits for the processes of a second guest.
count() {
    local p=0 f=0 s=0 counts
    counts=$(tail -n 1 "$log" | sed -nE 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p')
    read -r p f s <<<"${counts:-0 1 0}"
    if [ "$f" -eq 0 ] && { [ "$2" -ne 0 ] || grep -qE 'Sanitizer: |runtime error: ' "$log"; }; then f=1; fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    printf '%-8s %d passed, %d failed, %d skipped, %d s\n' "$1" "$p" "$f" "$s" $((SECONDS - began))
    grep -E '^(figure|skipped|flaky): ' "$log"
    { [ "$f" -eq 0 ] && ! grep -q '^flaky: ' "$log"; } || sed 's/^/    | /' "$log"
}

for part in "${parts[@]}"; do
    began=$SECONDS options=()
    case $part in
    one | path) limit=170 ;;
    pair) limit=220 options=(--pair) ;;
    asan) limit=300 options=(--pair) ;;
    two) limit=220 options=(--two) ;;
    api | contract) limit=450 ;;
    esac
    if [ -n "${XFER_TEST_UNTIL:-}" ] && [ $(($(date +%s) + limit)) -gt "$XFER_TEST_UNTIL" ]; then
        echo "skipped: $part: it may take $limit s, and so many are not left of the time of the whole run"
        skipped=$((skipped + 1))
        continue
    fi
    [ $part != contract ] || prepare_contract
    python3 "$here/guest.py" --limit $limit "${options[@]}" python3 "$here/inside.py" "$build" "$part" >"$log" 2>&1 &
    guest=$!
    wait $guest
    status=$? guest=
    if [ $status -eq 77 ] && [ $failed -eq 0 ]; then
        cat "$log"
        exit 77
    fi
    count "$part" $status
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
