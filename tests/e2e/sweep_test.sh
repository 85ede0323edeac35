#!/usr/bin/env bash
exec python3 tests/e2e/sweep_test.py
