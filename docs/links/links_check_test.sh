#!/usr/bin/env bash
exec python3 "$(dirname "$0")/links_check_test.py"
