#!/usr/bin/env bash
set -euo pipefail
exec python3 bench/memory/memory.py cli/strata bench/memory/memory_rank --elements 4194304
