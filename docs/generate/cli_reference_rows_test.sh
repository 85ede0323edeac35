#!/usr/bin/env bash
exec python3 "$(dirname "$0")/cli_reference_rows_test.py"
