#!/usr/bin/env bash
# The reference of jobs is made, with a row for every field.
set -euo pipefail
python3 docs/generate/all.py "$TEST_TMPDIR" --only job-reference.md
page=$TEST_TMPDIR/job-reference.md
[ "$(head -n 1 "$page")" = "# Job reference" ]
fields=$(grep -cE '^ +(repeated |optional )?[A-Za-z0-9_.]+ [a-z0-9_]+ = [0-9]+' proto/job.proto)
rows=$(grep -c '^| `[a-z0-9_]*` |' "$page")
echo "$rows rows, $fields fields"
[ "$rows" -eq "$fields" ]
