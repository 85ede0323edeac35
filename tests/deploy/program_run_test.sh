#!/usr/bin/env bash
# `strata run`: programs as jobs, what their ranks print, and how it ends where they do not.
set -euo pipefail
strata=$PWD/cli/strata
linear=$PWD/examples/linear/linear
cd "$TEST_TMPDIR"

fail() { echo "$1" >&2; cat out err; exit 1; }
# run STATUS ARGS: runs `strata run ARGS`, which must end so; writes out and err.
run() {
  local expected=$1 status=0
  shift
  "$strata" run "$@" > out 2> err || status=$?
  [ "$status" -eq "$expected" ] || fail "exit status $status, not $expected, of: strata run $*"
}

# Rank 0's output comes with the job's progress, and no other rank's.
run 0 -n 4 --nodes 2 --servers 2 --set optimizer.sgd={} --set schedule.base_lr=0.1 \
  "$linear" '{launch}'
grep -qx 'b = 5.000' out || fail "rank 0's output is not there"
grep -q 'job 1 (linear): finished' out || fail "the end is not there"
run 0 -n 2 --log all --set optimizer.sgd={} --set schedule.base_lr=0.1 "$linear" '{launch}'
grep -qx '\[0\] b = 5.000' out || fail "rank 0's lines do not bear its number"
run 0 -n 2 --log all.log --set optimizer.sgd={} --set schedule.base_lr=0.1 "$linear" '{launch}'
grep -qx '\[0\] b = 5.000' all.log || fail "the file has not what ranks print"
! grep -q 'b = 5.000' out || fail "the screen has what the file was to have"

# A script's exception is the job's reason; what it printed before is shown.
cat > broken.py <<'END'
import os, sys
int(os.environ["MASTER_PORT"]), os.environ["MASTER_ADDR"]
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], sys.argv[1:])
raise ValueError("no such thing: " + os.path.basename(os.environ["STRATA_LAUNCH"]))
END
run 1 -n 1 broken.py --lr 0.1
grep -qx "rank 0 of 1 \['--lr', '0.1'\]" out || fail "what the script printed is not there"
grep -q 'ValueError: no such thing: 4' err || fail "the exception is not the job's reason"

# The job that it would run.
run 0 -n 4 --mode "ssp(2)" --print-job broken.py --lr 0.1
grep -q '^name: "broken"$' out || fail "no job was printed"
"$strata" validate out > validated || fail "the printed job does not hold"
grep -q 'staleness: 2' validated || fail "the mode is not in the job"
exchange_is() { [ "$(grep '^exchange:' out)" = "exchange: $1" ] || fail "the exchange is not $1"; }
run 0 -n 2 --print-job broken.py
exchange_is RING
# Servers that are asked for, another cluster's, and those that a mode needs are not left out.
for words in "--servers 1" "--coordinator h:1" "--nodes 2" "--mode ssp(2)" \
  "--set exchange=PARAMETER_SERVER" "--exchange servers"; do
  # shellcheck disable=SC2086
  run 0 -n 2 $words --print-job broken.py
  exchange_is PARAMETER_SERVER
done

run 0 -n 2 --exchange ring --nodes 2 --print-job broken.py
exchange_is RING

# A printed job trains on the cluster that it is submitted to, from whichever folder.
run 0 -n 2 --nodes 2 --servers 1 --set optimizer.sgd={} --set schedule.base_lr=0.1 --print-job \
  "$linear" '{launch}'
mkdir elsewhere
mv out elsewhere/printed.textproto
port=$(python3 -c 'import socket; s = socket.create_server(("", 0)); print(s.getsockname()[1])')
"$strata" local --nodes 2 --servers 1 --listen "127.0.0.1:$port" --runs submitted > cluster 2>&1 &
cluster=$!
trap 'kill "$cluster" 2> /dev/null || true' EXIT
until grep -q ' keys=' cluster; do
  kill -0 "$cluster" || fail "no cluster"
  sleep 0.1
done
keys=$(sed -n 's/.* keys=\([^ ]*\).*/\1/p' cluster)
(cd elsewhere && "$strata" submit printed.textproto --follow --coordinator "127.0.0.1:$port" \
  --keys "$keys" \
  > ../out 2> ../err) || fail "the printed job does not train"
grep -q 'job 1 (linear): finished' out || fail "the printed job did not finish"
grep -qx 'b = 5.000' submitted/linear-1/logs/rank0.log || fail "the printed job has not learned"
kill -INT "$cluster"
wait "$cluster" || true
trap - EXIT

# A program that cannot run gives one line.
run 2 gone.py
grep -qx 'strata: error: gone.py: no such file' err || fail "the missing script is not named"
for words in "--exchange torus broken.py" "./gone" "" "-n 0 broken.py" "--mode bulk broken.py" \
  "--log /nowhere/x broken.py" "--coordinator h:1 --servers 2 broken.py"; do
  # shellcheck disable=SC2086
  run 2 $words
  [ "$(wc -l < err)" -eq 1 ] || fail "not one line: strata run $words"
done
