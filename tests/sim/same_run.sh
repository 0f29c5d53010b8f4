#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two processes with the same seeds do the same. Usage: same_run.sh XFER_SIM
set -euo pipefail
run() { "$1" --seeds "$2" --digest --quiet | grep '^digest '; }
one=$(run "$1" 1..100)
[ "$one" = "$(run "$1" 1..100)" ] || { echo "equal seeds gave unequal runs"; exit 1; }
[ "$one" != "$(run "$1" 2..101)" ] || { echo "other seeds gave the same digest: $one"; exit 1; }
# What can't be meant is told, and runs nothing.
for wrong in "" "--seed" "--seed x" "--seeds 5..1" "--seeds 5" "--seconds 0" "--nonsense" "--seed 1 --count 2" \
    "--seeds 1..2 --trace"; do
    status=0
    # shellcheck disable=SC2086
    text=$("$1" $wrong 2>&1) || status=$?
    [ $status -eq 2 ] && [[ $text == "xfer_sim: "* ]] || { echo "\"$wrong\": $status, $text"; exit 1; }
done
"$1" --help | grep -q -- --trace
