#!/usr/bin/env bash
# A few blows of each kind: the job must finish with the right weights, and nothing be left.
set -euo pipefail
status=0
python3 bench/chaos.py cli/strata --minutes 0.7 --every 2 --seed 3 --standby || status=$?
[ "$status" -eq 77 ] || exit "$status"
