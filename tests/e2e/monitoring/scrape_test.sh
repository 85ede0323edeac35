#!/usr/bin/env bash
exec python3 tests/e2e/monitoring/scrape_test.py
