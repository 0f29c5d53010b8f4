#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The example tree serves and fetches, with itself and with xfer_tree if the build folder has that, and makes mistakes
# on purpose: run-tree-test.sh BUILD_DIR
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1
rust() { bash "$here/run-tree.sh" "$build" "$@"; }
c() { "$build/examples/c/tree/xfer_tree" "$@"; }
sides=(rust)
if [ -x "$build/examples/c/tree/xfer_tree" ]; then sides+=(c); else echo "xfer_tree is not built: without it"; fi

work=$(mktemp -d)
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

# A server of the tree in the background, whose address is then in $uri and whose process in $server.
start() { # SIDE [OPTIONS]
    local said=$work/server-${#servers[@]}.log
    if [ "$1" = c ]; then
        "$build/examples/c/tree/xfer_tree" serve "$work/tree" >"$said" 2>&1 &
    else
        bash "$here/run-tree.sh" "$build" serve "$work/tree" "${@:2}" >"$said" 2>&1 &
    fi
    server=$!
    servers+=("$server")
    until grep -qs '^listening at ' "$said"; do
        kill -0 "$server"
        sleep 0.05
    done
    uri=$(sed -n 's/^listening at //p' "$said")
}

expect() { # STATUS TEXT COMMAND...
    local wanted=$1 text=$2 said status=0
    shift 2
    said=$("$@" 2>&1) || status=$?
    if [ "$status" != "$wanted" ] || ! grep -q -e "$text" <<<"$said"; then
        printf 'expected %s and "%s" of %s, but it ended with %s and said:\n%s\n' "$wanted" "$text" "$*" "$status" "$said"
        exit 1
    fi
}

# Names, modes, times to the nanosecond but for those of links, sizes but for those of directories, and targets.
list() {
    (cd "$1" && find . -mindepth 1 \( -type l -printf '%p %l\n' -o -type d -printf '%p %m %T@\n' \
        -o -printf '%p %m %T@ %s\n' \) | sort)
}

mkdir -p "$work/tree/deep/deeper" "$work/tree/empty" "$work/tree/sealed"
echo one >"$work/tree/one"
: >"$work/tree/deep/nothing"
head -c 10000000 /dev/urandom >"$work/tree/deep/deeper/large" # more than one get
head -c 70000 /dev/urandom >"$work/tree/sealed/read-only"
ln -s /etc/passwd "$work/tree/link"
ln -s nowhere "$work/tree/deep/dangling"
printf x >"$work/tree/"$'name of\nbytes \xff'
mkfifo "$work/tree/pipe"
chmod 600 "$work/tree/one"
touch -d '1960-01-02 03:04:05.678901234' "$work/tree/one"
chmod 444 "$work/tree/sealed/read-only"
chmod 555 "$work/tree/sealed"

for server_side in "${sides[@]}"; do
    start "$server_side"
    rm -f "$work/tree/pipe" # after the servers have looked: it is not in the copies
    list "$work/tree" >"$work/wanted"
    for side in "${sides[@]}"; do
        copy=$work/$side-of-$server_side
        "$side" fetch "$uri" "$copy" >"$work/out" 2>"$work/said"
        grep -q '^fetched 5 files, 10.1 MB' "$work/out"
        diff -r --no-dereference "$work/tree" "$copy"
        list "$copy" | diff "$work/wanted" -
        echo "$side fetched what $server_side serves"
    done
    [ "$server_side" = rust ] && rust_uri=$uri rust_server=$server
done

expect 2 usage rust
expect 2 usage rust fetch "$rust_uri"
expect 2 usage rust serve --listen
expect 1 'No such file' rust serve "$work/nowhere"
expect 1 'Not a directory' rust serve "$work/tree/one"
expect 1 'cannot listen' rust serve "$work/tree" --listen "$rust_uri"
expect 1 'nobody lets us in' rust fetch tcp://127.0.0.1:1 "$work/other"
expect 1 'is not empty' rust fetch "$rust_uri" "$work/rust-of-rust"
mkdir "$work/there.part"
expect 1 'there.part: File exists' rust fetch "$rust_uri" "$work/there"
[ ! -e "$work/other" ] && [ ! -e "$work/there" ]
mkdir "$work/new"
rust fetch "$rust_uri" "$work/new/" >/dev/null
list "$work/new" | diff "$work/wanted" -


# The bar is for terminals.
rust fetch "$rust_uri" "$work/silent" 2>"$work/bar" >/dev/null
[ ! -s "$work/bar" ]
if command -v script >/dev/null; then
    script -qec "bash '$here/run-tree.sh' '$build' fetch '$rust_uri' '$work/shown'" /dev/null >"$work/bar"
    grep -q '\[########################################\] 10.1 MB' "$work/bar"
fi

head -c 32 /dev/urandom >"$work/key"
expect 1 'XFER_EAUTH' rust serve "$work/tree" --listen tcp://0.0.0.0:0
start rust --key "$work/key"
rust fetch "$uri" "$work/unlocked" --key "$work/key" >/dev/null
list "$work/unlocked" | diff "$work/wanted" -
expect 1 'XFER_EAUTH' rust fetch "$uri" "$work/other"
expect 1 'no-key: No such file' rust fetch "$uri" "$work/other" --key "$work/no-key"

# A fetch that is told to end leaves nothing.
truncate -s 400M "$work/tree/deep/zeros"
start rust
bash "$here/run-tree.sh" "$build" fetch "$uri" "$work/half" >"$work/out" 2>&1 &
fetching=$!
until [ -d "$work/half.part" ]; do
    kill -0 "$fetching"
    sleep 0.01
done
kill -TERM "$fetching"
status=0
wait "$fetching" || status=$?
[ "$status" = 130 ] && grep -q 'tree: interrupted' "$work/out"
[ ! -e "$work/half" ] && [ ! -e "$work/half.part" ]

kill -TERM "$rust_server"
wait "$rust_server" # with 0: a server ends when it is told to
echo ok
