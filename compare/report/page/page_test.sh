#!/usr/bin/env bash
exec python3 compare/report/page/page_test.py
