#!/usr/bin/env bash
exec python3 tests/e2e/top_test.py
