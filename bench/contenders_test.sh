#!/usr/bin/env bash
set -euo pipefail
exec python3 bench/contenders_test.py
