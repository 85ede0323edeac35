#!/usr/bin/env bash
# The other coordinator must take over and the job train on; how soon and how fast is not judged.
set -euo pipefail
exec python3 bench/coordinator_failover.py cli/strata --rounds 2 --window 3
