#!/usr/bin/env bash
set -euo pipefail
exec python3 bench/operations/web.py cli/strata bench/operations/clock_rank --viewers 2 \
  --window 1 --pairs 1 --idle 0 --points 5 --rounds 1
