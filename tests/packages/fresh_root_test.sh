#!/usr/bin/env bash
exec python3 -B "$(dirname "$0")/fresh_root_test.py"
