#!/usr/bin/env bash
# Runs seal_vectors_test.py where PyPI's `cryptography` is: in the environment s3.
set -euo pipefail
python=$(deploy/python_env.sh --print s3)/bin/python
[ -x "$python" ] || {
  echo "strata: error: $python: is not there; run deploy/python_env.sh s3" >&2
  exit 1
}
PYTHONDONTWRITEBYTECODE=1 exec "$python" common/seal/seal_vectors_test.py \
  common/testing/seal_vectors
