#!/usr/bin/env bash
exec python3 tests/e2e/web_test.py
