#!/usr/bin/env bash
exec python3 docs/generate/python_reference.py --check
