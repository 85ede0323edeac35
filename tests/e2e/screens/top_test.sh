#!/usr/bin/env bash
exec python3 tests/e2e/screens/top_test.py
