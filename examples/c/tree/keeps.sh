#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# keeps.sh XFER_TREE: what a tree is made of arrives, a fetch that was interrupted or killed goes on where it ended, and
# neither side needs memory for the whole tree.
set -euo pipefail
tree=$1
work=$(mktemp -d)
export TMPDIR=$work
servers=()
clean_up() {
    local pid
    for pid in "${servers[@]}"; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    chmod -R u+rwx "$work"
    rm -rf "$work"
}
trap clean_up EXIT
die() { echo "$*"; exit 1; }

serve() { # directory, options: sets server and uri
    rm -f "$work/log"
    "$tree" serve "$@" >"$work/log" 2>&1 &
    server=$!
    servers+=("$server")
    until grep -qs '^listening' "$work/log"; do kill -0 "$server" && sleep 0.05; done
    uri=$(sed -n 's/^listening at //p' "$work/log")
}

# All that is kept, one line for each name; the root is the user's own.
facts() {
    (cd "$1" && find . -mindepth 1 \( -type l -printf '%P link %l\n' -o -printf '%P %y %m %T@ %s\n' \) |
        sed -E 's/ d ([0-7]+) ([0-9.]+) [0-9]+$/ d \1 \2/' | LC_ALL=C sort)
}

must_be_same() { # source, copy
    diff <(facts "$1") <(facts "$2") || die "$2: not what was served"
    diff -r --no-dereference "$1" "$2" || die "$2: other bytes than were served"
}

# ---- what is kept ----
source=$work/source
mkdir -p "$source/a/b/c" "$source/empty/within" "$source/locked"
echo one >"$source/a/one"
: >"$source/a/b/c/nothing"
ln -s one "$source/a/link"
ln -s nowhere "$source/dangling"
ln -s ../a "$source/empty/to-a"
head -c 700000 /dev/urandom >"$source/a/large"
truncate -s 40M "$source/sparse"
printf x | dd of="$source/sparse" bs=1 seek=20000000 conv=notrunc status=none
truncate -s 3000001 "$source/all-hole"
mkfifo "$source/pipe"
chmod 640 "$source/a/one"
chmod 400 "$source/a/large"
touch -d '2001-02-03 04:05:06.789012345' "$source/a/one" "$source/sparse"
echo kept >"$source/locked/file"
touch -d '1969-12-31 23:59:58 UTC' "$source/locked/file"
chmod 555 "$source/locked"
touch -d '2002-03-04 05:06:07.5' "$source/empty" "$source/a" "$source/locked"
serve "$source" --accept "$(mkdir "$work/accepted" && echo "$work/accepted")"
grep -q '1 special or unreadable ones skipped' "$work/log" || die "the pipe was not counted"
rm "$source/pipe"
"$tree" fetch "$uri" "$work/copy" --verify >"$work/out"
grep -q verified "$work/out"
must_be_same "$source" "$work/copy"
[ "$(du -k "$work/copy/sparse" | cut -f1)" -lt 2000 ] || die "a hole was filled"
[ ! -e "$work/copy.part" ] || die "something was left"
"$tree" push "$work/copy" "$uri" >"$work/out"
must_be_same "$source" "$work/accepted/push-1"
# A server that comes later counts on.
serve "$source" --accept "$work/accepted"
"$tree" push "$work/copy" "$uri" >"$work/out"
must_be_same "$source" "$work/accepted/push-2"

# ---- interrupted, and killed ----
big=$work/big
mkdir "$big"
for name in 1 2 3 4; do head -c 150000000 /dev/urandom >"$big/$name"; done
for name in $(seq 100); do echo "$name" >"$big/small-$name"; done
serve "$big"

# Ends a fetch with signal $1 when it has begun to write, and leaves something to be done.
interrupt() { # signal, destination
    local fetch attempt
    for attempt in $(seq 20); do
        "$tree" fetch "$uri" "$2" >"$work/out" 2>"$work/bar" &
        fetch=$!
        until [ -s "$2.part/tree/$attempt_file" ] || ! kill -0 "$fetch" 2>/dev/null; do sleep 0.002; done
        kill "-$1" "$fetch" 2>/dev/null || true
        status=0
        wait "$fetch" || status=$?
        [ "$status" -ne 0 ] && return
        rm -rf "$2" # it was faster than the signal
    done
    die "no fetch was slow enough to be ended by $1"
}

attempt_file=1
interrupt INT "$work/int"
[ "$status" -eq 130 ] || die "ended by SIGINT with $status: $(cat "$work/bar")"
grep -q 'the same command goes on' "$work/bar" || die "not said how to go on: $(cat "$work/bar")"
[ ! -e "$work/int" ] || die "what is not complete has the name already"
"$tree" fetch "$uri" "$work/int" --verify >"$work/out" 2>"$work/bar"
grep -q 'were there already' "$work/bar" || die "began anew: $(cat "$work/bar")"
grep -q 'came now' "$work/out" || die "does not say what came now: $(cat "$work/out")"
must_be_same "$big" "$work/int"

interrupt KILL "$work/killed"
# Nobody else may be at it meanwhile, and the lock goes with its process.
exec 9<"$work/killed.part"
flock 9
"$tree" fetch "$uri" "$work/killed" >"$work/out" 2>&1 && die "two at once"
grep -q 'another process is at it' "$work/out" || die "$(cat "$work/out")"
exec 9<&-
interrupt KILL "$work/killed"
"$tree" fetch "$uri" "$work/killed" >"$work/out" 2>"$work/bar"
grep -q 'were there already' "$work/bar" || die "began anew: $(cat "$work/bar")"
must_be_same "$big" "$work/killed"

# What went wrong on the disk is found, and the next attempt begins anew.
interrupt KILL "$work/wrong"
printf 'other bytes' | dd of="$work/wrong.part/tree/1" bs=1 seek=1000 conv=notrunc status=none
"$tree" fetch "$uri" "$work/wrong" --verify >"$work/out" 2>&1 && die "wrong bytes were taken"
grep -q "1: differs from the server's" "$work/out" || die "$(cat "$work/out")"
"$tree" fetch "$uri" "$work/wrong" --verify >"$work/out" 2>&1
must_be_same "$big" "$work/wrong"
rm -rf "$work/wrong"

# Of another state of the tree nothing is kept.
interrupt KILL "$work/other"
kill "$server"
wait "$server" || true
echo more >"$big/small-1"
serve "$big"
"$tree" fetch "$uri" "$work/other" >"$work/out" 2>"$work/bar"
grep -q 'begins anew' "$work/bar" || die "goes on with another tree: $(cat "$work/bar")"
must_be_same "$big" "$work/other"

# ---- memory ----
own_memory() { awk '/^RssAnon/ { print int($2 / 1024) }' "/proc/$1/status"; }
rm -rf "$work/int" "$work/killed" "$work/other"
mkdir "$big/many"
for name in $(seq 700); do head -c 200000 "$big/1" >"$big/many/$name"; done # 140 MB that are copied
serve "$big"
"$tree" fetch "$uri" "$work/int" >"$work/out" 2>"$work/bar" &
fetch=$!
most=0
while now=$(own_memory "$fetch" 2>/dev/null) && [ -n "$now" ]; do
    [ "$now" -le "$most" ] || most=$now
    sleep 0.01
done
wait "$fetch"
must_be_same "$big" "$work/int"
now=$(own_memory "$server")
echo "740 MB: the server has $now MB of its own, the fetch had $most"
[ "$now" -lt 60 ] || die "the server holds the tree in memory: $now MB"
[ "$most" -gt 0 ] && [ "$most" -lt 160 ] || die "the fetch holds the tree in memory: $most MB"
echo ok
