#!/usr/bin/env bash
# Builds Bazel targets quietly: a line when there is something to build, the compiler's words only
# when it fails. usage: deploy/build.sh TARGET...
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if bazel build --check_up_to_date "$@" >"$log" 2>&1; then
  exit 0
fi
echo "Building $* (the first build takes about ten minutes on two cores)"
if [ -t 2 ]; then
  bazel build "$@"
elif ! bazel build "$@" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
