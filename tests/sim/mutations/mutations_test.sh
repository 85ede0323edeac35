#!/usr/bin/env bash
# As a test: every mutant must be red. As a program (bazel run): also writes REPORT.md
# here, which git ignores.
#   mutations_test.sh SEEDS PROGRAM
set -uo pipefail
seeds=$1
shift
folder=tests/sim/mutations
if [ -n "${BUILD_WORKSPACE_DIRECTORY:-}" ]; then
  exec python3 "$folder/run_mutants.py" --seeds "$seeds" \
    --report "$BUILD_WORKSPACE_DIRECTORY/$folder/REPORT.md" "$@"
fi
exec python3 "$folder/run_mutants.py" --seeds "$seeds" \
  --report "$TEST_UNDECLARED_OUTPUTS_DIR/REPORT.md" "$@"
