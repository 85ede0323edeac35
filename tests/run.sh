#!/usr/bin/env bash
# Installs packages, builds everything, runs every test. The last line is "N passed, N failed",
# counted in test cases; the exit status is 0 only if none failed.
#
# usage: tests/run.sh [BAZEL OPTIONS AND TARGETS]     default targets: //...
#   tests/run.sh //kernels/...                        one folder
set -uo pipefail
cd "$(dirname "$0")/.."

deploy/install_packages.sh || { echo "0 passed, 1 failed"; exit 1; }

targets=0
for argument in "$@"; do
  case "$argument" in -*) ;; *) targets=1 ;; esac
done
[ "$targets" -eq 1 ] || set -- "$@" //...

log=$(mktemp)
trap 'rm -f "$log"' EXIT
bazel test --keep_going --color=no --curses=no "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

python3 tests/count_cases.py "$log" bazel-testlogs "$status"
counted=$?
[ "$status" -eq 0 ] && [ "$counted" -eq 0 ]
