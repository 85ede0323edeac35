#!/usr/bin/env bash
# Servers die, the job continues with the right weights, and its second copies come back; the time
# is not judged.
set -euo pipefail
status=0
python3 bench/server_death.py cli/strata --rounds 2 --bytes 1000000 --goal-median-s 60 \
  --goal-worst-s 60 || status=$?
[ "$status" -eq 77 ] || exit "$status"
