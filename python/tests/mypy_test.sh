#!/usr/bin/env bash
# The package's types, as strictly as mypy checks them.
set -euo pipefail
python=$(deploy/python_env.sh --print torch-2.11)/bin/python
[ -x "$python" ] || {
  echo "strata: error: $python: is not there; run deploy/python_env.sh torch-2.11" >&2
  exit 1
}
cd python
exec "$python" -m mypy --strict --cache-dir "$TEST_TMPDIR/mypy" strata
