#!/usr/bin/env bash
set -euo pipefail
exec python3 bench/exchange_overhead.py cli/strata --model mlp --steps 12 --batch 16 --pairs 1
