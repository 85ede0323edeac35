#!/usr/bin/env bash
exec python3 "$(dirname "$0")/named_tests_check_test.py"
