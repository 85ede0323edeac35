#!/usr/bin/env bash
exec python3 tests/sim/mutations/mutate_test.py
