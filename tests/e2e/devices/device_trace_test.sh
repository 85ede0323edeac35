#!/usr/bin/env bash
exec python3 tests/e2e/devices/device_trace_test.py
