#!/usr/bin/env bash
exec python3 bench/experiments/claims_test.py
