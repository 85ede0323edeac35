#!/usr/bin/env bash
set -euo pipefail
for ranks in 1 2; do
  python3 bench/train_against_ddp.py cli/strata --ranks $ranks --limit 2560 --pairs 1 --accuracy 0
done
