#!/usr/bin/env bash
exec python3 tests/e2e/screens/local_web_test.py
