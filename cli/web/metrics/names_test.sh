#!/usr/bin/env bash
exec python3 cli/web/metrics/names_test.py
