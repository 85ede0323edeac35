#!/usr/bin/env bash
# Builds Strata and its peers, runs them side by side and writes the tables of bench/RESULTS.md.
#
# usage: bench/run.sh [SCENARIO|GROUP...] [--rounds N] [--list]     default: all (about an hour)
#   bench/run.sh --tiny    sizes for a test, nothing is written
#   bench/run.sh small-tcp --before /FOLDER/bazel-bin    beside an older commit's build, no peers:
#                                                        has a change cost what nobody asked for?
#
# Scenarios on shaped links take root (see bench/netlab.sh), else they are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
for argument in "$@"; do
  case "$argument" in --tiny | --list) exec python3 bench/side_by_side.py "$@" ;; esac
done
# A library that was installed since is not found; its peers would be skipped without a word.
looked=$(bazel info output_base 2>/dev/null)/external/optional_libraries/defs.bzl
python3 bench/side_by_side.py --check-libraries "$looked"
bazel build //bench:contenders
exec python3 bench/side_by_side.py --write bench/RESULTS.md "$@"
