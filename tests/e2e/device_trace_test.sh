#!/usr/bin/env bash
exec python3 tests/e2e/device_trace_test.py
