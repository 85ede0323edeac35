#!/usr/bin/env bash
exec python3 compare/sweep/page/sweep_page_test.py
