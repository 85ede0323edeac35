#!/usr/bin/env bash
# Bazel shows this folder through symbolic links; the real path lies in the workspace.
exec python3 "$(realpath "$(dirname "$0")/named_tests.py")"
