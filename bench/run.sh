#!/usr/bin/env bash
# Builds Strata and its peers, runs them side by side and prints a table for each scenario.
#
# usage: bench/run.sh [SCENARIO|GROUP...] [--rounds N] [--write] [--list]
#                                                        default: all scenarios (about an hour)
#   bench/run.sh one-host --write    also puts the table in place of its own in bench/RESULTS.md,
#                                    where all others stay as they are
#   bench/run.sh --tiny    sizes for a test
#   bench/run.sh small-tcp --before /FOLDER/bazel-bin    beside an older commit's build, no peers:
#                                                        has a change cost what nobody asked for?
#
# Scenarios on shaped links take root (see bench/netlab.sh), else they are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
arguments=()
for argument in "$@"; do
  case "$argument" in
    --tiny | --list) exec python3 bench/side_by_side.py "$@" ;;
    --write) arguments+=(--write bench/RESULTS.md) ;;
    *) arguments+=("$argument") ;;
  esac
done
# A library that was installed since is not found; its peers would be skipped without a word.
looked=$(bazel info output_base 2>/dev/null)/external/optional_libraries/defs.bzl
python3 bench/side_by_side.py --check-libraries "$looked"
bazel build //bench:contenders
exec python3 bench/side_by_side.py "${arguments[@]}"
