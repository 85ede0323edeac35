#!/usr/bin/env bash
exec python3 tests/e2e/halving_test.py
