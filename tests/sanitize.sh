#!/usr/bin/env bash
# The whole test suite under AddressSanitizer (with its leak check), UndefinedBehaviorSanitizer and
# ThreadSanitizer, and a build with clang in which its thread-safety analysis is an error. There are
# no suppressions; targets tagged no-sanitizer, whose units forbid what sanitizers need, are named
# at the end, and ThreadSanitizer does not judge what the system's libraries, which are built
# without it, do by themselves. Ends with a table, a line each; the exit status is 0 only if all of
# them are clean.
#
# usage: tests/sanitize.sh [asan|ubsan|tsan|clang ...] [-- BAZEL OPTIONS AND TARGETS]
#   tests/sanitize.sh                          all four over //...
#   tests/sanitize.sh tsan -- //common/...     one of them over one folder
set -uo pipefail
cd "$(dirname "$0")/.."

runs=()
while [ $# -gt 0 ]; do
  case "$1" in
    asan | ubsan | tsan | clang) runs+=("$1") ;;
    --) shift; break ;;
    *) echo "strata: error: unknown run \"$1\" (asan, ubsan, tsan, clang)" >&2; exit 2 ;;
  esac
  shift
done
[ ${#runs[@]} -gt 0 ] || runs=(asan ubsan tsan clang)
targets=0
for argument in "$@"; do
  case "$argument" in -*) ;; *) targets=1 ;; esac
done
[ "$targets" -eq 1 ] || set -- "$@" //...

deploy/install_packages.sh --tests || exit 1

# The links bazel-bin and bazel-testlogs stay those of the ordinary build.
options=(--color=no --curses=no --keep_going --experimental_convenience_symlinks=ignore)
table=()
clean=0
for run in "${runs[@]}"; do
  log=$(mktemp)
  started=$SECONDS
  if [ "$run" = clang ]; then
    bazel build "${options[@]}" --config=clang "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    result="$(grep -c ': error: .*Wthread-safety' "$log") thread-safety errors"
  else
    bazel test "${options[@]}" --config="$run" "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    logs=$(bazel info --config="$run" bazel-testlogs 2>/dev/null)
    result=$(python3 tests/count_cases.py "$log" "$logs" "$status")
  fi
  rm -f "$log"
  verdict=clean
  if [ "$status" -ne 0 ]; then
    verdict='NOT CLEAN'
    clean=1
  fi
  table+=("$(printf '%-6s %-10s %s (%d s)' "$run" "$verdict" "$result" $((SECONDS - started)))")
done
echo "left out: $(bazel query 'attr(tags, no-sanitizer, //...)' 2>/dev/null | tr '\n' ' ')"
printf '%s\n' "${table[@]}"
exit $clean
