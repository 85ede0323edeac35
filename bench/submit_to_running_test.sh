#!/usr/bin/env bash
# It must run; its figure is not judged.
set -euo pipefail
exec python3 bench/submit_to_running.py cli/strata --rounds 2 --goal-ms 60000
