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
grep -q '3 files.*1 links' "$work/log"

"$tree" fetch "$uri" "$work/copy" >"$work/out" 2>"$work/bar"
rm "$work/small/link"
diff -r "$work/small" "$work/copy"
grep -q '100%' "$work/bar"

expect 'usage' "$tree"
expect 'usage' "$tree" fetch "$uri"
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
diff -r "$work/small" "$work/unlocked"
expect 'EAUTH' "$tree" fetch "$locked_uri" "$work/other" --key "$work/other-key"
expect 'EAUTH' "$tree" fetch "$locked_uri" "$work/other"
expect 'did not start' "$tree" fetch "$locked_uri" "$work/other" --key "$work/short-key"

kill -0 "$server" # and it still serves

# A server that dies in the middle is noticed, and what had come so far is removed.
truncate -s 300M "$work/small/large"
"$tree" serve "$work/small" >"$work/dying.log" 2>&1 &
dying=$!
until grep -qs '^listening' "$work/dying.log"; do kill -0 "$dying" && sleep 0.05; done
dying_uri=$(sed -n 's/^listening at //p' "$work/dying.log")
(until [ -d "$work/half.part" ]; do sleep 0.01; done && kill -9 "$dying") &
SECONDS=0
expect 'the bytes did not come' "$tree" fetch "$dying_uri" "$work/half"
[ "$SECONDS" -lt 15 ]
[ ! -e "$work/half" ] && [ ! -e "$work/half.part" ]
echo ok
