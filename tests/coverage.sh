#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Which lines of the library the tests run: unit, simulation, fuzz corpus and API, in a build of their own.
#
#   bash tests/coverage.sh                   builds, runs, prints the share of each floor; fails below 90 % in api,
#                                            core or wire
#   bash tests/coverage.sh --missing [PART]  of the last run, the lines that were not reached, of files named like PART
#
# A process that is killed leaves no counts: what only a crash reaches counts as not reached.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit
build=$PWD/build/coverage

case ${1-} in
--missing) exec python3 tests/coverage.py --missing "$build/coverage.json" "${2-}" ;;
"") ;;
*)
    sed -n '3,9s/^# \{0,1\}//p' tests/coverage.sh
    exit 2
    ;;
esac
command -v gcovr >/dev/null || { echo "gcovr is not installed (Debian: gcovr)"; exit 1; }

cmake --preset coverage && cmake --build --preset coverage || exit
find "$build" -name '*.gcda' -delete
# The walk through all meetings takes minutes without optimization, and reaches what unit tests reach.
status=0
for suite in unit sim fuzz api; do
    log=$build/$suite.log
    XFER_TEST_QUICK=1 python3 tests/suite.py "$build/tests/$suite" -j 2 -LE long -E two_peers >"$log" || status=1
    echo "$suite: $(tail -n 1 "$log")"
    sed -n '/^FAILED: /,$p' "$log"
done
gcovr --root . --filter lib/ --json "$build/coverage.json" "$build/lib" "$build/tests" || exit
python3 tests/coverage.py "$build/coverage.json" && [ $status -eq 0 ]
