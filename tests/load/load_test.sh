#!/usr/bin/env bash
# load_test.sh NODES STEPS
set -euo pipefail
tests/load/strata_load --strata cli/strata --dir "$TEST_TMPDIR/load" --nodes "$1" --steps "$2"
