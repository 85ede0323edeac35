#!/usr/bin/env bash
# Bazel shows this folder through symbolic links; the real path of the test lies in the workspace.
exec python3 -B "$(realpath "$(dirname "$0")/lists_test.py")"
