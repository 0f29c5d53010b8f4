#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds libxfer, then moves real files with it: one process serves a directory tree, a second one
# fetches it, by shared memory and then over TCP, a third one pushes it back. Then the checksums of
# the four trees are compared.
#
#   bash examples/quickstart.sh            about 400 MB of this machine's own files
#   bash examples/quickstart.sh DIR        the tree DIR
#   bash examples/quickstart.sh --small    about 20 MB
#
#   --bin DIR    with the programs that are in DIR; nothing is installed or built
#
# What is missing for the build is installed by tests/install.sh --build, which says before what it is and how large;
# no compiler other than gcc, nothing that only tests need.
set -euo pipefail
export LC_ALL=C
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
megabytes=400 input= bin= work= server=

usage() { sed -n '4,16s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
say() { printf '%s\n' "$*"; }
die() { printf 'quickstart: %s\n' "$*" >&2; exit 1; }
now() { date +%s.%N; }
since() { awk -v from="$1" -v to="$(now)" 'BEGIN { printf "%.1f s", to - from }'; }

while [ $# -gt 0 ]; do
    case $1 in
        --small) megabytes=20 ;;
        --bin) [ $# -gt 1 ] || die "--bin needs a directory"; bin=$2; shift ;;
        -h | --help) usage; exit 0 ;;
        -*) usage >&2; exit 2 ;;
        *) [ -z "$input" ] || die "one directory only"; input=$1 ;;
    esac
    shift
done
[ -z "$input" ] || [ -d "$input" ] || die "no such directory: $input"

# Whatever happens, Ctrl-C included: the server ends, the temporary files go.
clean_up() {
    trap '' INT TERM
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" 2>/dev/null || true
    [ -z "$work" ] || rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Runs a step with its output in a log, which is shown only if the step fails.
quietly() {
    local what=$1 log=$2 from status=0
    shift 2
    from=$(now)
    printf '%s ... ' "$what"
    "$@" >"$log" 2>&1 || status=$?
    if [ "$status" -ne 0 ]; then
        say "failed"
        tail -n 30 "$log" >&2
        die "$what failed; all of it is in $log"
    fi
    say "$(since "$from")"
}

build() {
    local build=$root/build/quickstart
    mkdir -p "$build"
    bash "$root/tests/install.sh" --build
    quietly "configuring" "$build/configure.log" \
        cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DXFER_TESTS=OFF
    quietly "building (a minute or two)" "$build/build.log" cmake --build "$build"
    bin=$build/examples/c/tree
}

# Copies files of this machine, as many as fit into so many megabytes, so that nobody changes them
# under way.
sample() {
    mkdir "$work/sample"
    (
        cd /usr
        for part in lib share bin; do
            find $part -xdev -type f -readable -size -32M ! -name $'*\n*' -printf '%s %p\n' \
                2>/dev/null | sort -k2
        done | awk -v limit="${megabytes}000000" \
            '{ if (sum + $1 <= limit) { sum += $1; sub(/^[0-9]+ /, ""); print } }' >"$work/list"
        tar -cf - --no-recursion --verbatim-files-from -T "$work/list" | tar -xf - -C "$work/sample"
    )
    input=$work/sample
}

# One line for each file: checksum and path.
checksums() {
    (
        cd "$1"
        find . -type f -readable -print0 | xargs -0 -r -n 256 -P "$(nproc)" sha256sum | sort -k2
    )
}

must_equal() {
    cmp -s "$work/input.sums" "$2" && return
    die "the $1 tree differs: $(diff "$work/input.sums" "$2" | head -n 3)"
}

start_server() {
    mkdir "$work/accepted"
    "$bin/xfer_tree" serve "$input" --accept "$work/accepted" >"$work/server.log" 2>&1 &
    server=$!
    until grep -qs '^listening' "$work/server.log"; do
        kill -0 "$server" 2>/dev/null || { server=; die "$(cat "$work/server.log")"; }
        sleep 0.05
    done
    uri=$(sed -n 's/^listening at //p' "$work/server.log")
    cat "$work/server.log"
}

rate_of() { sed -n 's/.* at \([0-9.]*\) GB\/s.*/\1/p' "$1"; }
whole_rate_of() { sed -n 's/.* at \([0-9.]*\) GB\/s with the files written.*/\1/p' "$1"; }
row() { printf '  %-11s %8s %8s   %s\n' "$@"; }
path_of() { sed -n 's/.*, //p' "$1"; }

say "libxfer quickstart"
[ -n "$bin" ] || build
[ -x "$bin/xfer_tree" ] || die "no xfer_tree in $bin"
work=$(mktemp -d "${TMPDIR:-/tmp}/xfer-quickstart.XXXXXX")

if [ -n "$input" ]; then
    input=$(cd "$input" && pwd)
    needed=$(($(du -sm "$input" | cut -f1) * 3))
else
    needed=$((megabytes * 4))
fi
free=$(df -Pm "$work" | awk 'NR == 2 { print $4 }')
[ "$free" -gt $((needed + 50)) ] ||
    die "$work has $free MB free, more than $((needed + 50)) are needed; set TMPDIR"
[ -n "$input" ] || sample
# The raw measure moves about as much, within what says something and what fits.
raw=$(find "$input" -type f -readable -printf '%s\n' |
    awk '{ sum += $1 } END { print int(sum / 1e6) }')
raw=$((raw < 100 ? 100 : raw > 1000 ? 1000 : raw))

say ""
raw_before=$("$bin/raw_tcp" "$raw")
start_server
"$bin/xfer_tree" fetch "$uri" "$work/fetched" | tee "$work/fetch.out"
XFER_TRANSPORTS=loopback,tcp "$bin/xfer_tree" fetch "$uri" "$work/fetched-tcp" | tee "$work/tcp.out"
"$bin/xfer_tree" push "$work/fetched" "$uri" | tee "$work/push.out"
raw_after=$("$bin/raw_tcp" "$raw")

say ""
printf 'comparing checksums ... '
from=$(now)
checksums "$input" >"$work/input.sums"
checksums "$work/fetched" >"$work/fetched.sums"
checksums "$work/fetched-tcp" >"$work/tcp.sums"
checksums "$work/accepted/push-1" >"$work/pushed.sums"
must_equal fetched "$work/fetched.sums"
must_equal "second fetched" "$work/tcp.sums"
must_equal pushed "$work/pushed.sums"
say "$(wc -l <"$work/input.sums") files, four times the same ($(since "$from"))"

say ""
say "GB/s; files: until all are written to $work, which is the time that you waited; bytes: the gets alone"
row "" files bytes ""
row fetch "$(whole_rate_of "$work/fetch.out")" "$(rate_of "$work/fetch.out")" "$(path_of "$work/fetch.out")"
row fetch "$(whole_rate_of "$work/tcp.out")" "$(rate_of "$work/tcp.out")" \
    "$(path_of "$work/tcp.out"), with XFER_TRANSPORTS=loopback,tcp"
row push "$(whole_rate_of "$work/push.out")" "$(rate_of "$work/push.out")" "the server fetches"
row "raw TCP" - "$raw_before" "one plain stream over loopback before, $raw MB without a pause, and"
row "" - "$raw_after" "after. The bytes of a fetch come 64 MB at a time, with a pause while these are"
row "" "" "" "written, so its figure can be the higher one. For a fair comparison: xfer_perf"
say ""
say "ok: every byte arrived. Next: examples/c/hello.c."
