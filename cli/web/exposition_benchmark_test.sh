#!/bin/bash
# Runs the benchmark's smaller case; fails where it reports an error or did not run.
set -euo pipefail
output=$("$1" --benchmark_filter='/10$' --benchmark_min_time=0.001 2>&1)
echo "$output"
! grep -q "ERROR OCCURRED" <<<"$output"
[ "$(grep -c 'lines=' <<<"$output")" -eq 1 ]
