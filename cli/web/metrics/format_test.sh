#!/usr/bin/env bash
# Debian's interpreter: the parser is a package of Debian.
exec /usr/bin/python3 cli/web/metrics/format_test.py
