#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What programs were compiled against stays: the headers against those of the last release, as compilers see them.
#
#   bash tests/abi/baseline.sh           renews baseline.abi, at a release
#   bash tests/abi/baseline.sh --check   fails, with abidiff's report, if anything was taken away or changed
#
# New functions, enums and enumerators pass, and fields at the end of structs that baseline.ignore does not except. A
# field in the place of a reserved one is told as a change: look at the report, and renew if that is all there is.
set -u -o pipefail
cd "$(dirname "$0")" || exit
headers=$PWD/../../include/xfer baseline=$PWD/baseline.abi ignore=$PWD/baseline.ignore
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Compiled there, so that no path gets inside.
python3 stub.py "$headers/xfer.h" "$headers/text.h" "$headers/rdma.h" "$headers/cuda.h" >"$work/stub.c" && cd "$work" &&
    gcc -std=c11 -w -g -shared -fPIC -o libstub.so stub.c || exit

case ${1-} in
--check) abidiff --no-added-syms --suppressions "$ignore" "$baseline" libstub.so ;;
"") abidw --no-show-locs --no-corpus-path --no-comp-dir-path --out-file "$baseline" libstub.so ;;
*)
    sed -n '3,10s/^# \{0,1\}//p' "$OLDPWD/baseline.sh"
    exit 2
    ;;
esac
