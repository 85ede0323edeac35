#!/usr/bin/env bash
# All must come back; how soon is not judged.
set -euo pipefail
exec python3 bench/return_of_daemons.py cli/strata --daemons 6 --rounds 2 --goal-s 300
