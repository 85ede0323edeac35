#!/usr/bin/env bash
exec python3 docs/generate/job_reference.py --check
