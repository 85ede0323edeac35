#!/usr/bin/env bash
set -euo pipefail
exec python3 bench/limited_streams.py cli/strata --connections 1 3 --steps 20 --mbytes-per-s 4
