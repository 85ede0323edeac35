#!/usr/bin/env bash
set -euo pipefail
exec python3 bench/stopped_node.py cli/strata --pairs 1 --seconds 3 --goal 0
