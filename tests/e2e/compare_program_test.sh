#!/usr/bin/env bash
exec python3 tests/e2e/compare_program_test.py
