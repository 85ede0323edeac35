#!/usr/bin/env bash
exec python3 cli/web/page/page_logs_test.py
