#!/usr/bin/env bash
exec python3 docs/generate/cli_reference.py --check cli/strata
