#!/usr/bin/env bash
exec python3 "$(dirname "$0")/fresh_root_test.py"
