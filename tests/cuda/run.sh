#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tests with a real GPU. The last line is `N passed, N failed, N skipped`; where there is no GPU all are skipped.
#
#   bash tests/cuda/run.sh             builds (preset gcc) and runs here
#   bash tests/cuda/run.sh --tree DIR  builds, and copies to DIR all that another machine needs, but for glibc; there:
#                                      bash DIR/run.sh
# XFER_CUDA_BUILD=DIR: a build folder of another place.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
programs=(cuda_pointers cuda_operations cuda_streams cuda_broken)

build() {
    local root build
    root=$(cd "$here/../.." && pwd)
    build=${XFER_CUDA_BUILD:-$root/build/gcc}
    (cd "$root" && cmake --preset gcc -B "$build" && cmake --build "$build" --target "${programs[@]}" cuda_lender) >&2
    folder=$build/tests/cuda
}

copy_tree() { # to
    mkdir -p "$1"
    cp "$here/run.sh" "$folder"/cuda_lender "${programs[@]/#/$folder/}" "$1"
    ldd "${programs[@]/#/$folder/}" | sed -nE 's/.* => (\/[^ ]+) .*/\1/p' | sort -u |
        grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv)\.so\.' | xargs cp -L -t "$1"
}

passed=0 failed=0 skipped=0

# run NAME [VARIABLE=VALUE ...] PROGRAM: counts its cases, as tests/suite.py does.
run() {
    local name=$1 log status=0 p f s
    shift
    log=$(mktemp)
    env XFER_LOG=error "${@:1:$#-1}" timeout 240 "$folder/${*: -1}" >"$log" 2>&1 || status=$?
    p=$(grep -cE '^\[       OK \] ' "$log" || true)
    f=$(sed -nE 's/^\[  FAILED  \] ([0-9]+) test\(s\).*/\1/p' "$log" | head -n 1)
    s=$(sed -nE 's/^\[  SKIPPED \] ([0-9]+) test\(s\).*/\1/p' "$log" | head -n 1)
    s=${s:-0}
    if grep -q '^\[doctest\] test cases' "$log"; then
        s=$(grep -cE '^\S+ MESSAGE: skipped' "$log" || true)
        p=$(($(sed -nE 's/^\[doctest\] test cases: .*\| *([0-9]+) passed.*/\1/p' "$log") - s))
        f=$(sed -nE 's/^\[doctest\] test cases: .*\| *([0-9]+) failed.*/\1/p' "$log")
    fi
    f=${f:-0}
    [ $status -eq 0 ] || [ "$f" -ne 0 ] || f=1 # it ended early
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    printf '%-24s %d passed, %d failed, %d skipped\n' "$name" "$p" "$f" "$s"
    sed -nE 's/^figure: /    &/p' "$log"
    sed -nE 's/.*(skipped: .*)/    \1/p' "$log" | sort -u
    [ "$f" -eq 0 ] || sed 's/^/    | /' "$log"
    rm -f "$log"
}

case ${1:-} in
--tree)
    build
    copy_tree "${2:?--tree DIR}"
    exit
    ;;
'') if [ -e "$here/cuda_pointers" ]; then folder=$here; else build; fi ;;
*) sed -n '3,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
run pointers cuda_pointers
run 'operations by tcp' XFER_TRANSPORTS=loopback,tcp,unix cuda_operations
run 'operations near' cuda_operations
run 'operations by shm' XFER_TEST_TRANSPORT=shm cuda_operations
run 'streams by tcp' XFER_TRANSPORTS=loopback,tcp,unix cuda_streams
run 'streams near' cuda_streams
run 'streams, one queue' CUDA_DEVICE_MAX_CONNECTIONS=1 cuda_streams
run 'streams, 32 queues' CUDA_DEVICE_MAX_CONNECTIONS=32 cuda_streams
run 'a broken context' cuda_broken
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
