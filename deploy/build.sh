#!/usr/bin/env bash
# Builds Bazel targets quietly: a line when there is something to build, one line of progress
# (refreshed on a terminal, now and then a new one elsewhere), and the compiler's words only when it
# fails. usage: deploy/build.sh TARGET...
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if bazel build --check_up_to_date "$@" >"$log" 2>&1; then
  exit 0
fi
# Time to build all of `strata` on one core.
core_minutes=14
cores=$(nproc)
minutes=$(((core_minutes + cores - 1) / cores))
echo "Building $* (a first build takes about $minutes minutes on $cores cores, seconds where this" \
  "user has built it before)"

# Shows "N of M actions" of the lines that Bazel writes, and keeps all others.
show_progress() {
  local line shown=0 next=0 done total
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9,]+)\ /\ ([0-9,]+)\] ]]; then
      done=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]}
      if [ -t 2 ]; then
        printf '\r  %s of %s actions\033[K' "$done" "$total" >&2
        shown=1
      elif [ "$SECONDS" -ge "$next" ]; then
        echo "  $done of $total actions" >&2
        next=$((SECONDS + 30))
      fi
    else
      printf '%s\n' "$line" >>"$log"
    fi
  done
  [ "$shown" -eq 0 ] || printf '\r\033[K' >&2
}

: >"$log"
if ! bazel build --color=no --curses=no "$@" 2>&1 | show_progress; then
  cat "$log" >&2
  exit 1
fi
