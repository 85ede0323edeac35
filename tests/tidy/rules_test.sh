#!/usr/bin/env bash
exec python3 "$(dirname "$0")/rules_test.py"
