#!/bin/bash
# Runs the benchmark's tiny cases; fails where one reports an error or none ran.
set -euo pipefail
output=$("$1" --benchmark_filter='5003/manual_time' --benchmark_min_time=0.001 2>&1)
echo "$output"
! grep -q "ERROR OCCURRED" <<<"$output"
[ "$(grep -c 'plain_ratio=' <<<"$output")" -eq 2 ]
