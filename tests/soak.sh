#!/usr/bin/env bash
# Runs what is long by nature, hours on two cores; `tests/run.sh --soak` calls it. The last line is
# "N passed, N failed". SOAK.md keeps when it last ran, and with what result.
#
# usage: tests/soak.sh [SEEDS]      seeds of each of the simulator's profiles; default: 2000
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
seeds=${1:-2000}
passed=0 failed=0

# Runs a command and says how it ended and how long it took.
step() {
  local name=$1 began=$SECONDS
  shift
  if "$@"; then
    passed=$((passed + 1))
    echo "soak: $name: passed, $(((SECONDS - began + 59) / 60)) min"
  else
    failed=$((failed + 1))
    echo "soak: $name: FAILED, $(((SECONDS - began + 59) / 60)) min"
  fi
}

# Each file by itself, without precompiled headers: what includes too little does not compile.
step "every file compiled alone" bazel build --config=alone //...
bazel build //tests/sim:simulate //tests/sim/mutations:mutants || failed=$((failed + 1))
profiles=$(bazel-bin/tests/sim/simulate --help | sed -n 's/^ *\([a-z][a-z-]*\): .*/\1/p')
[ -n "$profiles" ] || failed=$((failed + 1))
# The last one shows what it is like without a mend: it locks up.
for profile in ${profiles/no-reserved-slot/}; do
  step "$seeds seeds of $profile" \
    bazel-bin/tests/sim/simulate --seeds "$seeds" --profile "$profile"
done
step "what $seeds seeds of each profile must have met" \
  bazel test --test_output=errors --test_arg="--seeds=$seeds" //tests/sim:simulation_test
step "jobs that resume again and again" \
  bazel test --test_output=errors //tests/e2e:resume_soak
step "all tests and benchmarks of a bundle, on the fake device" \
  bazel test --test_output=errors --test_arg=--whole //tests/gpu:bundle_test
step "each kind of case beside DDP" \
  bazel test --test_output=errors --test_env=STRATA_WHOLE=1 //bench:against_ddp_test
step "fuzzing, 10 minutes a target" tests/fuzz.sh --seconds 600

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
