#!/usr/bin/env bash
# The reduced set: a few steps of every experiment, live ones on loopback and on namespaces of
# their own.
exec python3 bench/experiments/experiments_test.py
