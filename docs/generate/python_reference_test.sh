#!/usr/bin/env bash
# The reference of the Python package is made, with all of its modules.
set -euo pipefail
python3 docs/generate/all.py "$TEST_TMPDIR" --only python-api.md
for title in "# Python reference" "## strata.torch" "### strata.torch.DistributedOptimizer" \
  "## strata" "### strata.Session" "## strata.ray"; do
  grep -qxF "$title" "$TEST_TMPDIR/python-api.md" || { echo "no '$title'" >&2; exit 1; }
done
