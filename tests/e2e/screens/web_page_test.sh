#!/usr/bin/env bash
exec python3 tests/e2e/screens/web_page_test.py
