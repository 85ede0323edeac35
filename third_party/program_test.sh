#!/usr/bin/env bash
# program_test.sh PROGRAM ARGS...     for program_test.bzl
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1  # some programs are linked from the workspace itself
command=("${@/#TEST_TMPDIR\//$TEST_TMPDIR/}")
[[ $1 != *.py ]] || command=(python3 "${command[@]}")
exec "${command[@]}"
