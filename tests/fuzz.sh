#!/usr/bin/env bash
# Builds the fuzz targets of tests/fuzz/ with clang's libFuzzer and sanitizers, and runs each from
# its seeds (tests/fuzz/make_corpus.py) for a while. What crashes a target is left as a file, with
# the command that replays it; keep it as tests/fuzz/corpus/TARGET.crash-NAME, and it is a seed.
#
# usage: tests/fuzz.sh [--seconds N] [--corpus DIR] [TARGET...]
#   --seconds N    per target; default 60
#   --corpus DIR   keep what the fuzzers learn in DIR/TARGET and go on from it; default: forget it
#   TARGET         NAME_fuzz, of tests/fuzz/NAME_fuzz.cc; default: all, two at a time
#
# One line per target at the end: "fuzz/TARGET PASSED: ..." or "fuzz/TARGET FAILED: ...". The exit
# status is 0 only if all passed.
set -uo pipefail
cd "$(dirname "$0")/.."

all=$(cd tests/fuzz && echo *_fuzz.cc)
all=${all//.cc/}
seconds=60
corpus=
targets=
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) seconds=${2-}; shift 2 || exit 2 ;;
    --corpus) corpus=${2-}; shift 2 || exit 2 ;;
    -*) echo "tests/fuzz.sh: unknown option $1" >&2; exit 2 ;;
    *) targets="$targets $1"; shift ;;
  esac
done
case "$seconds" in
  ''|*[!0-9]*|0*) echo "tests/fuzz.sh: --seconds $seconds is not a positive number" >&2; exit 2 ;;
esac
targets=${targets:-$all}
for target in $targets; do
  case " $all " in
    *" $target "*) ;;
    *) echo "tests/fuzz.sh: no target $target; there are $all" >&2; exit 2 ;;
  esac
done

work=$(mktemp -d)
findings=$work/findings
keep=0
trap '[ "$keep" -eq 1 ] || rm -rf "$work"; jobs -p | xargs -r kill 2>/dev/null' EXIT
corpus=${corpus:-$work/corpus}

if ! python3 tests/fuzz/make_corpus.py "$work/seeds"; then
  for target in $targets; do echo "fuzz/$target FAILED: it has no seeds"; done
  exit 1
fi

# Another compiler would make Bazel forget its ordinary build, so this one has a server and outputs
# of its own; the disk cache is common to both.
base=$(bazel info output_base 2>/dev/null)-fuzz
fuzz_bazel() { bazel --output_base="$base" --max_idle_secs=5 "$@"; }
labels=
for target in $targets; do labels="$labels //tests/fuzz:$target"; done
# shellcheck disable=SC2086
if ! fuzz_bazel build --config=fuzz --symlink_prefix=/ --color=no --curses=no $labels; then
  for target in $targets; do echo "fuzz/$target FAILED: it does not build"; done
  exit 1
fi
bin=$(fuzz_bazel info --config=fuzz bazel-bin 2>/dev/null)
for target in $targets; do
  cp -f "$bin/tests/fuzz/$target" "$work/$target" || exit 1
done
fuzz_bazel shutdown

fuzz() {
  local target=$1 log=$work/$1.log dictionary=
  mkdir -p "$corpus/$target" "$findings/$target"
  [ -f "tests/fuzz/$target.dict" ] && dictionary=-dict=tests/fuzz/$target.dict
  # shellcheck disable=SC2086
  timeout --kill-after=10 $((seconds + 120)) \
    "$work/$target" -max_total_time="$seconds" -max_len=8192 -rss_limit_mb=1024 -timeout=10 \
    -print_final_stats=1 -artifact_prefix="$findings/$target/" $dictionary \
    "$corpus/$target" "$work/seeds/$target" >"$log" 2>&1
  echo $? >"$work/$target.status"
}

# Shows how far a fuzzer has come: the last line that tells its coverage.
progress() {
  grep -ao 'cov: .* rss: [0-9]*Mb' "$work/$1.log" 2>/dev/null | tail -1
}

report() {
  local target=$1 runs
  runs=$(sed -n 's/^stat::number_of_executed_units: //p' "$work/$target.log")
  if [ "$(cat "$work/$target.status")" -eq 0 ] && [ "${runs:-0}" -gt 0 ]; then
    echo "fuzz/$target PASSED: $runs inputs in $seconds s, $(progress "$target")"
    return 0
  fi
  keep=1
  tail -60 "$work/$target.log"
  echo "keep what crashes as tests/fuzz/corpus/$target.crash-NAME; to replay:"
  for file in "$findings/$target"/*; do echo "  $work/$target $file"; done
  echo "fuzz/$target FAILED: see above"
  return 1
}

echo "fuzzing for $seconds s each, two at a time:" $targets
waiting=($targets)
tick=0
while [ "${#waiting[@]}" -gt 0 ] || [ -n "$(jobs -pr)" ]; do
  while [ "${#waiting[@]}" -gt 0 ] && [ "$(jobs -pr | wc -l)" -lt 2 ]; do
    fuzz "${waiting[0]}" &
    waiting=("${waiting[@]:1}")
  done
  sleep 1
  tick=$((tick + 1))
  [ $((tick % 15)) -eq 0 ] || continue
  for target in $targets; do
    [ -f "$work/$target.log" ] && [ ! -f "$work/$target.status" ] &&
      echo "$target: $(progress "$target")"
  done
done

failed=0
for target in $targets; do report "$target" || failed=1; done
exit "$failed"
