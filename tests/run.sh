#!/usr/bin/env bash
# Installs packages, builds everything, runs every test and then fuzzes. The last line is
# "N passed, N failed", counted in test cases; the exit status is 0 only if none failed.
#
# usage: tests/run.sh [--fuzz-seconds=N] [BAZEL OPTIONS AND TARGETS]     default targets: //...
#   tests/run.sh //kernels/...        one folder, no fuzzing
#   tests/run.sh --fuzz-seconds=600   every test; each fuzz target for so long (default 10; 0: none)
#   tests/run.sh --soak               what is long by nature, and nothing else: see SOAK.md
set -uo pipefail
cd "$(dirname "$0")/.."

deploy/install_packages.sh --tests || { echo "0 passed, 1 failed"; exit 1; }

targets=0
soak=0
python=0
fuzz_seconds=10
options=()
for argument in "$@"; do
  case "$argument" in
    --fuzz-seconds=*) fuzz_seconds=${argument#*=}; continue ;;
    --soak) soak=1; continue ;;
    -*) ;;
    //... | //python* | //bench/... | //bench/python*) targets=1 python=1 ;;
    //tests/... | //tests/e2e* | //tests/deploy*) targets=1 python=1 ;;
    //common/... | //common/seal*) targets=1 python=1 ;;
    *) targets=1 ;;
  esac
  options+=("$argument")
done
[ "$targets" -eq 1 ] || { options+=(//...); python=1; }
# Tests download nothing, so what they run Python in is made before.
[ "$python" -eq 0 ] || deploy/python_env.sh debian torch-2.11 launch wheel s3 boards ||
  { echo "0 passed, 1 failed"; exit 1; }

if [ "$soak" -eq 1 ]; then
  exec tests/soak.sh
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Many tests wait for daemons more than they compute.
jobs=$((($(nproc) * 3 + 1) / 2))
run_tests() {
  bazel test --keep_going --color=no --curses=no --jobs="$jobs" --local_test_jobs="$jobs" \
    "${options[@]}" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
}
run_tests
# A compiler that was killed for memory says nothing of the sources. What fails twice, fails.
not_built=$(grep -A 15 '^ERROR: .* failed' "$log" | head -n 100)
if [ -n "$not_built" ]; then
  echo "Part of the build failed; it is tried once more"
  failed_tests=$(grep -E '^//[^ ]+ +(FAILED in|TIMEOUT) ' "$log")
  run_tests
  # A test has one try.
  echo "$failed_tests" >> "$log"
fi

if [ "$targets" -eq 0 ] && [ "$fuzz_seconds" != 0 ]; then
  tests/fuzz.sh --seconds "$fuzz_seconds" 2>&1 | tee -a "$log"
  [ "${PIPESTATUS[0]}" -eq 0 ] || status=1
fi

[ -z "$not_built" ] || echo "The first try of the build failed:
$not_built"
python3 tests/count_cases.py "$log" bazel-testlogs "$status"
counted=$?
[ "$status" -eq 0 ] && [ "$counted" -eq 0 ]
