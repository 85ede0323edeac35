#!/usr/bin/env bash
exec python3 tests/e2e/trace_test.py
