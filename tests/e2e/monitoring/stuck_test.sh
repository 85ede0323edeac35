#!/usr/bin/env bash
exec python3 tests/e2e/monitoring/stuck_test.py
