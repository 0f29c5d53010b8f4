#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# mistakes.sh XFER_TREE: makes mistakes on purpose; each must fail and name its cause.
set -euo pipefail
tree=$1
work=$(mktemp -d)
server= locked= dying=
clean_up() {
    local pid
    for pid in $server $locked $dying; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap clean_up EXIT

expect() { # expect TEXT COMMAND...
    local text=$1 said
    shift
    if said=$("$@" 2>&1); then
        echo "succeeded: $*"
        exit 1
    fi
    if ! grep -q -e "$text" <<<"$said"; then
        printf 'expected "%s" of %s, but it said:\n%s\n' "$text" "$*" "$said"
        exit 1
    fi
    echo "as it should be: $said"
}

mkdir "$work/small" "$work/full" "$work/accept"
echo one >"$work/small/one"
mkdir "$work/small/deep"
echo two >"$work/small/deep/two"
: >"$work/small/empty"
ln -s /etc/passwd "$work/small/link"

"$tree" serve "$work/small" >"$work/log" 2>&1 &
server=$!
until grep -qs '^listening' "$work/log"; do kill -0 "$server" && sleep 0.05; done
uri=$(sed -n 's/^listening at //p' "$work/log")
mkfifo "$work/small/pipe" # after the server has looked
grep -q '3 files' "$work/log"

"$tree" fetch "$uri" "$work/copy" >"$work/out" 2>"$work/bar"
rm "$work/small/pipe"
[ "$(readlink "$work/copy/link")" = /etc/passwd ]
diff -r --no-dereference "$work/small" "$work/copy"
grep -q '100%' "$work/bar"

expect 'usage' "$tree"
expect 'usage' "$tree" fetch "$uri"
expect 'usage' "$tree" push "$work/small" "$uri" --verify
expect 'usage' "$tree" fetch "$uri" "$work/other" --lanes many
expect 'needs --key FILE' "$tree" serve "$work/small" --listen tcp://0.0.0.0:0
expect 'in the way' bash -c 'mkdir "$2/mine.part" && touch "$2/mine.part/mine" && "$0" fetch "$1" "$2/mine"' "$tree" "$uri" "$work"
expect 'No such file' "$tree" serve "$work/nowhere"
expect 'no such directory' "$tree" serve "$work/small" --accept "$work/nowhere"
expect 'not a directory' "$tree" serve "$work/small/one"
expect 'cannot listen' "$tree" serve "$work/small" --listen "$uri"
expect 'tcp:/nonsense' "$tree" fetch tcp:/nonsense "$work/other"
expect 'nobody answers' "$tree" fetch tcp://127.0.0.1:1 "$work/other"
expect 'nobody answers' "$tree" push "$work/small" tcp://127.0.0.1:1
expect 'is not empty' "$tree" fetch "$uri" "$work/copy"
expect 'takes no pushes' "$tree" push "$work/small" "$uri"
expect 'No such file' "$tree" push "$work/nowhere" "$uri"

# A server with a key answers only to those that have it.
head -c 32 /dev/zero >"$work/key"
head -c 32 /dev/urandom >"$work/other-key"
head -c 5 /dev/zero >"$work/short-key"
"$tree" serve "$work/small" --key "$work/key" >"$work/locked.log" 2>&1 &
locked=$!
until grep -qs '^listening' "$work/locked.log"; do kill -0 "$locked" && sleep 0.05; done
locked_uri=$(sed -n 's/^listening at //p' "$work/locked.log")
"$tree" fetch "$locked_uri" "$work/unlocked" --key "$work/key" >>"$work/out" 2>&1
diff -r --no-dereference "$work/small" "$work/unlocked"
"$tree" fetch "$locked_uri" "$work/unlocked-too" --key "$work/key" --lanes 3 >>"$work/out" 2>&1
expect "other-key is not the server's" "$tree" fetch "$locked_uri" "$work/other" --key "$work/other-key"
expect 'give it with --key FILE' "$tree" fetch "$locked_uri" "$work/other"
expect 'a key has 32 to 256 bytes, this file has 5' "$tree" fetch "$locked_uri" "$work/other" --key "$work/short-key"

kill -0 "$server" # and it still serves

# A server that dies in the middle is noticed, and what had come so far waits for the next attempt.
head -c 300000000 /dev/urandom >"$work/small/large"
"$tree" serve "$work/small" >"$work/dying.log" 2>&1 &
dying=$!
until grep -qs '^listening' "$work/dying.log"; do kill -0 "$dying" && sleep 0.05; done
dying_uri=$(sed -n 's/^listening at //p' "$work/dying.log")
(until [ -d "$work/half.part" ]; do sleep 0.01; done && kill -9 "$dying") &
SECONDS=0
expect 'the bytes did not come.*goes on from there' "$tree" fetch "$dying_uri" "$work/half"
[ "$SECONDS" -lt 15 ]
[ ! -e "$work/half" ] && [ -d "$work/half.part/tree" ]

"$tree" --help | grep -q -e --verify
"$tree" fetch --help | grep -q -e --lanes
"$tree" --version | grep -q '^xfer_tree [0-9]'
echo ok
