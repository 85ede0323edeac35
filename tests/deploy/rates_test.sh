#!/usr/bin/env bash
# Programs that name their optimizer and say the learning rate of each step, by `strata run` in each
# kind of mode: the final weights are the sum of the rates that updates had.
set -euo pipefail
strata=$PWD/cli/strata
library=$PWD/worker/client/c/libstrata_client.so.1
program=$PWD/tests/deploy/rates.py
cd "$TEST_TMPDIR"

fail() { echo "$1" >&2; cat out err; exit 1; }
# run STATUS OPTIMIZER WHAT OPTIONS: runs the program, which must end so; writes out and err.
run() {
  local expected=$1 status=0 optimizer=$2 what=$3
  shift 3
  "$strata" run "$@" "$program" "$library" "$optimizer" "$what" > out 2> err || status=$?
  [ "$status" -eq "$expected" ] || fail "exit status $status, not $expected, of: strata run $*"
}
# ends WEIGHT OPTIONS: SGD by the rates that are said ends with this weight.
ends() {
  local weight=$1
  shift
  run 0 "sgd {}" same "$@"
  grep -q "^w = $weight seed" out || fail "the weight is not $weight: strata run $*"
}

# The rates of 8 steps are 3.75 in all. Two nodes of two ranks.
cluster="-n 4 --nodes 2 --servers 2"
# shellcheck disable=SC2086
{
  ends 3.75 $cluster --set seed=7
  grep -q "seed 7$" out || fail "the program did not find its seed"
  ends 3.75 $cluster --mode "ssp(2)"
  ends 3.75 $cluster --mode delay1
  ends 3.75 $cluster --mode "local(3)"
  ends 3.75 $cluster --mode lazy --set consistency.lazy.apply=ON_ARRIVAL
  ends 7.5 $cluster --mode async
  ends 3.75 -n 4 --nodes 2 --mode ring
  ends 3.75 -n 1 --set exchange=NONE

  # The named optimizer becomes the job's.
  run 0 "momentum_sgd { momentum: 0.25 }" same $cluster
  # Whoever says other rates ends the job, by name.
  run 1 "sgd {}" rank $cluster
  grep -qE 'rank [02] says learning rate 1 at step 3, rank [13] 2' err ||
    fail "the ranks are not named with their rates"
  run 1 "sgd {}" node -n 2 --nodes 2 --servers 1
  grep -qE 'node [01] says learning rate [12], node [01] [12]' err ||
    fail "the nodes are not named with their rates"
  run 1 "sgd {}" node -n 2 --nodes 2 --mode ring
  grep -qE "node [01]: .*node [01] says learning rate [12] at clock 3 of chunk 0, this one [12]" \
    err || fail "the nodes of the ring are not named with their rates"

  # An optimizer that does not fit the job gives one clear reason.
  run 1 "mean {}" same $cluster --mode async
  grep -q 'optimizer.mean: needs sync' err || fail "the mode's reason is not the job's"
  run 1 "" same $cluster
  grep -q 'the program has named no optimizer' err || fail "it is not said that none was named"
  run 1 "sgd {}" same $cluster --set optimizer.adam={}
  grep -q 'the job has adam, but the program names sgd' err || fail "the two are not named"
}
