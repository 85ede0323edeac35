#!/usr/bin/env bash
# At a tiny size: runs on the lab's hosts and in virtual time must go through the same weights; how
# far their times are apart is not judged.
set -euo pipefail
status=0
python3 bench/virtual_time.py cli/strata --model lenet5 --delay 5 --steps 16 --rounds 1 \
  --case sync-2-2-on-nodes ring-2 || status=$?
[ "$status" -eq 77 ] || exit "$status"
