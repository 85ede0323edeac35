#!/usr/bin/env bash
# `strata bench` at a tiny size: that it runs, that it sees right and wrong values, and that it says
# so. Its figures are not judged.
set -euo pipefail
strata=cli/strata
failed=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
expect() { # NAME CONDITION...
  local name=$1
  shift
  if "$@"; then
    echo "ok: $name"
  else
    echo "FAILED: $name"
    cat "$scratch"/out "$scratch"/err
    failed=1
  fi
}
status_of() {
  local status=0
  "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
  echo "$status"
}
field() { python3 -c "import json, sys; print(json.load(open('$scratch/out'))['$1'])"; }
tiny=(--bytes 300004 --chunk-elements 1024 --steps 4 --warmup 1)

expect "a table" \
  test "$(status_of $strata bench exchange "${tiny[@]}" --bandwidth-mbit 1000)" -eq 0
expect "says what was measured" \
  grep -q "2 nodes of 1 rank, 1 server of 1 shard, one host" "$scratch/out"
expect "that values are right" grep -q "values verified" "$scratch/out"
expect "and the bound, 2 x 2 x 300,004 bytes at 1 Gbit/s" grep -q " 9.600 " "$scratch/out"

expect "JSON" test "$(status_of $strata bench exchange "${tiny[@]}" --nodes 3 --servers 2 \
  --shards 2 --ranks 2 --window 2 --measure-s 0 --json)" -eq 0
expect "has what was asked for" test "$(field nodes) $(field servers) $(field window)" = "3 2 2"
expect "and what came of it" test "$(field verified) $(field steps) $(field chunks)" = "True 4 74"
expect "no bound where the bandwidth is not known" test "$(field bound_ms)" = None

expect "weights of another optimizer are wrong values, and an error" test "$(status_of $strata \
  bench exchange "${tiny[@]}" --measure-s 0 --set optimizer.nesterov={})" -eq 1
expect "it says so" grep -q "the values were wrong" "$scratch/err"
expect "encoded values are right to the last bit, too" test "$(status_of $strata bench exchange \
  "${tiny[@]}" --set push.codec=FP16 --set pull.codec=BF16 --bandwidth-mbit 1000)" -eq 0
expect "and the bound is that of the bytes on their way" grep -q " 4.80[0-9] " "$scratch/out"
expect "a codec that keeps no bits is refused" \
  test "$(status_of $strata bench exchange --measure-s 0 --set pull.codec=INT8)" -eq 2
expect "by name" grep -q "pull.codec: INT8: bench verifies every bit" "$scratch/err"
expect "latency is the same for a small model" \
  test "$(status_of $strata bench latency --steps 20 --warmup 2 --json) $(field bytes)" = "0 262144"
expect "an exchange that is none is one line, status 2" \
  test "$(status_of $strata bench exchange --exchange pigeon --measure-s 0)" -eq 2
expect "which names it" grep -q "PIGEON" "$scratch/err"
echo "h0 10.78.0.1 env" >"$scratch/hosts"
expect "too few hosts are refused" \
  test "$(status_of $strata bench exchange --hosts-file "$scratch/hosts")" -eq 2
expect "with how many it takes" grep -q "1 hosts, but 3 are needed" "$scratch/err"

$strata bench exchange --bytes 300004 --warmup 1 --steps 10000000 --measure-s 0 >"$scratch/out" \
  2>"$scratch/err" &
bench=$!
server=
for _ in $(seq 300); do
  server=$(pgrep -P $bench -f "server --name s0" || true)
  # Once ranks compute, all daemons are ready.
  if [ -n "$server" ] && pgrep -f "bench rank .*--steps 10000001 " >/dev/null; then break; fi
  sleep 0.1
done
kill -KILL "$server"
status=0
wait $bench || status=$?
expect "a daemon that dies ends the measurement" test "$status" -eq 1
expect "in one line" test "$(wc -l <"$scratch/err")" -eq 1
expect "that names it, or the job's reason" grep -q \
  "strata: error: .*server s0.*: the job was not measured, see /tmp/strata-bench-" "$scratch/err"
logs=$(grep -o "/tmp/strata-bench-[A-Za-z0-9]*" "$scratch/err" || true)
if [ -n "$logs" ]; then rm -rf "$logs"; fi

expect "the node level, with the right sums" test "$(status_of $strata bench aggregate \
  --bytes 300004 --ranks 3 --chunk-elements 1024 --steps 4 --warmup 1)" -eq 0
expect "says what was measured" grep -q "3 ranks of one node, 0.286 MiB each in 74 chunks" \
  "$scratch/out"
expect "and that values are right" grep -q "values verified" "$scratch/out"
expect "node level as JSON" test "$(status_of $strata bench aggregate --bytes 20MiB --helpers 2 \
  --steps 3 --warmup 1 --json)" -eq 0
expect "has the figures of all steps" test "$(field verified) $(field steps)" = "True 3"
expect "each with its bound" \
  python3 -c "exit(not (len($(field bounds_ms)) == 3 and $(field share) > 0))"
expect "no rank is refused" test "$(status_of $strata bench aggregate --ranks 0)" -eq 2
expect "in one line" grep -q -- "--ranks" "$scratch/err"
expect "chunks that are too small are refused" \
  test "$(status_of $strata bench aggregate --chunk-elements 8)" -eq 2
expect "with the least" grep -q -- "--chunk-elements 8: at least 256" "$scratch/err"

expect "all kernels have the right values" \
  test "$(status_of $strata bench kernels --tiny --seconds 0.001)" -eq 0
expect "and a line each, with the share of the bound" \
  test "$(grep -cE '/tiny( +[0-9.]+){7}$' "$scratch/out")" -eq 41
expect "kernels by name, as JSON" test "$(status_of $strata bench kernels --tiny --json \
  --seconds 0.001 --filter '^(sgd|sum_of_2)/')" -eq 0
expect "are those" test "$(python3 -c "import json
print(*[one['kernel'] for one in json.load(open('$scratch/out'))['kernels']])")" \
  = "sum_of_2/tiny sgd/tiny"
expect "a filter that is no expression is refused" \
  test "$(status_of $strata bench kernels --filter '(')" -eq 2
expect "in one line" test "$(grep -c "strata: error: --filter (:" "$scratch/err")" -eq 1
expect "so is one that no kernel has" \
  test "$(status_of $strata bench kernels --filter pigeon) $(wc -l <"$scratch/err")" = "1 1"
mkdir "$scratch/alone"
cp -L $strata "$scratch/alone/strata"
expect "where the kernels' program is not, it is an error" \
  test "$(status_of "$scratch/alone/strata" bench kernels)" -eq 1
expect "that says how to get it" grep -q "bazel build //bench:strata-kernels" "$scratch/err"

expect "training with each exchange and with none, with the right weights" \
  test "$(status_of $strata bench train --models mlp,lenet5 --batch 16 --steps 16 --rounds 2 \
  --out "$scratch/report" --json)" -eq 0
expect "has a case for each" test "$(python3 -c "import json
for model in json.load(open('$scratch/out'))['models']:
  print(model['name'], model['verified'],
        *[one['mode'] + str(one['ranks']) for one in model['cases']], end=';')")" \
  = "$(for model in mlp lenet5; do
    printf '%s True none1 sync1 lazy1 async1 none2 sync2 lazy2 async2 ring2;' $model
  done)"
expect "each with the efficiency of its rounds, that of the base 1" test "$(python3 -c "import json
cases = json.load(open('$scratch/out'))['models'][0]['cases']
print(cases[0]['efficiency'], len(cases[8]['efficiency_by_round']), cases[8]['efficiency'] > 0)")" \
  = "1.0 2 True"
expect "whose median lies between the least and the largest" python3 -c "import json
for model in json.load(open('$scratch/out'))['models']:
  for one in model['cases']:
    rounds = one['images_per_s_by_round']
    assert min(rounds) <= one['images_per_s'] <= max(rounds), one"
expect "says meanwhile how far it is" grep -q "^lenet5  9/18  ring, 2 ranks: " "$scratch/err"
expect "back and forth" grep -q "^lenet5  10/18  ring, 2 ranks: " "$scratch/err"
expect "the report is the same document" cmp "$scratch/out" "$scratch/report/train.json"
expect "and a page with pictures" test "$(grep -c '<svg' "$scratch/report/index.html")" -eq 4
cat >"$scratch/job.textproto" <<END
name: "own"
model { zoo: "mlp" }
data { synthetic { train_samples: 512 test_samples: 16 } batch_per_rank: 8 }
schedule { base_lr: 0.01 }
END
expect "a job of one's own" test "$(status_of $strata bench train --job "$scratch/job.textproto" \
  --ranks 1 --modes async --seconds 0.05 --rounds 1)" -eq 0
expect "in a table" grep -qE "^async +1 +1 " "$scratch/out"
expect "under what is its base" grep -q "^base: 1 rank, exchange NONE" "$scratch/out"
expect "nodes of two ranks, with encoded pushes" test "$(status_of $strata bench train \
  --models mlp --ranks 4 --ranks-per-node 2 --modes sync,ring --steps 8 --rounds 2 \
  --set push.codec=BF16)" -eq 0
expect "are as many as that makes" grep -qE "^ring +4 +2 " "$scratch/out"
expect "a loss that is no number ends it with an error" test "$(status_of $strata \
  bench train --models mlp --ranks 1 --modes async --steps 16 --rounds 1 \
  --set schedule.base_lr=1e30)" -eq 1
expect "that names it" grep -q "none, 1 ranks: .*loss is NaN" "$scratch/err"
expect "an exchange that is none is refused" \
  test "$(status_of $strata bench train --modes pigeon)" -eq 2
expect "by name" grep -q -- "--modes pigeon: not one of" "$scratch/err"
expect "so is a model that is none" \
  test "$(status_of $strata bench train --model pigeon) $(wc -l <"$scratch/err")" = "2 1"
expect "by its name, too" grep -q -- "--models pigeon: not one of mlp" "$scratch/err"
expect "and a precision that a CPU does not have" test "$(status_of $strata bench train \
  --models mlp --precision bf16) $(grep -c "BF16 needs device: GPU" "$scratch/err")" = "2 1"
# Its folder has its process number.
folders() { compgen -G "/tmp/strata-bench-$(cat "$scratch/process")-*"; }
(
  for _ in {1..60}; do
    sleep 0.1
    if [ -s "$scratch/process" ] && folders >"$scratch/seen"; then break; fi
  done
) &
watcher=$!
# Nothing of it ends by itself in this time.
expect "Ctrl-C ends it" test "$(status_of timeout --preserve-status --signal INT 3 \
  bash -c 'echo $$ > "$0" && exec "$@"' "$scratch/process" \
  $strata bench train --models vgg16 --ranks 1)" -eq 130
expect "in one line" test "$(grep -c 'strata: error: interrupted' "$scratch/err")" -eq 1
wait "$watcher"
expect "its folder was there" test -s "$scratch/seen"
expect "and nothing is left" test -z "$(folders)"

if [ "$(status_of bench/netlab.sh -- true)" -eq 77 ]; then
  cat "$scratch/err"
else
  in_lab=(bench/netlab.sh --hosts 4 --rate 100mbit --once -- $strata bench exchange
    "${tiny[@]}" --servers 2 --hosts-file '{hosts}' --measure-s 1 --json)
  expect "hosts of the network lab" test "$(status_of "${in_lab[@]}")" -eq 0
  expect "have a link of 100 Mbit/s" python3 -c "exit(not 0 < $(field bytes_per_s) < 1.25e7)"
  expect "and so a bound" python3 -c "exit(not $(field bound_ms) > 24)"
  expect "with the right values" test "$(field verified) $(field one_host)" = "True False"
fi
exit $failed
