#!/usr/bin/env bash
exec python3 tests/e2e/screens/web_test.py
