#!/usr/bin/env bash
exec python3 docs/generate/metrics_reference.py --check cli/web/metrics/testing/print_sample
