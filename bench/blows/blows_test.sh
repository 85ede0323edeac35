#!/usr/bin/env bash
set -euo pipefail
exec python3 bench/blows/blows_test.py
