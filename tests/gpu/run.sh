#!/usr/bin/env bash
# Runs every GPU test and benchmark of a bundle (deploy/bundle.sh) on this machine's first GPU. The
# last line is "N passed, N failed, N skipped", counted in test cases; a benchmark, which checks
# what it measures, is one, and so are a job and a program that could not run. The exit status is 0
# only if none failed. What was wanted of its speed, and whether it was reached, stands above that
# and is not counted.
#
# usage: tests/gpu/run.sh [OPTION...]
#   --only REGEX           parts whose title matches; default: all
#   --device-plugin        default: libstrata_cuda.so beside strata
#   --tiny                 benchmarks on 1 MiB and small models: to see that they run
#   --compute-sanitizer    default: the one in PATH or in /usr/local/cuda/bin; none: without it
set -uo pipefail
bin=$(cd "$(dirname "$0")/../../bin" && pwd) || exit 1
plugin=$bin/libstrata_cuda.so
only=
mib=100
trained=(--model resnet50 --precision BF16 --rounds 3)
exchanged=(--model resnet20 --rounds 3)
sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer)
sanitizer_s=600  # of each of its tools, at most
sanitized_parts=$(($(nproc) < 6 ? $(nproc) : 6))
while [ $# -gt 0 ]; do
  case "$1=${2:-}" in
    --help=*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --device-plugin=?*)
      plugin=$2
      [ -f "${plugin%%,*}" ] || {
        echo "strata: error: --device-plugin ${plugin%%,*}: is not there" >&2
        exit 2
      }
      shift ;;
    --only=?*) only=$2; shift ;;
    --compute-sanitizer=none) sanitizer=; shift ;;
    --compute-sanitizer=?*) sanitizer=$2; shift ;;
    --tiny=*)
      mib=1
      trained=(--model mlp --batch 8 --precision BF16 --rounds 2 --steps 8)
      exchanged=(--model mlp --batch 8 --rounds 1 --steps 8) ;;
    *) echo "strata: error: usage: tests/gpu/run.sh [--device-plugin PLUGIN] [--only REGEX]" \
         "[--tiny] [--compute-sanitizer PROGRAM]" >&2
       exit 2 ;;
  esac
  shift
done

[[ "" =~ $only ]]
if [ $? -eq 2 ]; then
  echo "strata: error: --only $only: is no regular expression" >&2
  exit 2
fi

passed=0 failed=0 skipped=0
work=$(mktemp -d)
log=$work/log
trap 'rm -rf "$work"' EXIT

# The number in front of a word of gtest's summary, 0 where it is not there.
count_of() {
  local found
  found=$(sed -n "s/^\[  $1  *\] \([0-9]*\) tests\{0,1\}[.,].*/\1/p" "$log" | head -n 1)
  echo "${found:-0}"
}

has_device=yes
"$bin/strata" devices --device-plugin "$plugin" | tee "$log" || has_device=no
devices=$(sed -n 's/.*: \([0-9]*\) devices\{0,1\}$/\1/p' "$log")

# The tests, counted one by one.
run_tests() {
  local status
  echo "== device_tests"
  "$bin/device_tests" "$plugin" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  if [ "$status" -eq 77 ]; then
    skipped=1
    return
  fi
  passed=$(count_of PASSED) failed=$(count_of FAILED) skipped=$(count_of SKIPPED)
  # A program that ends otherwise than by its tests has failed, whatever it counted.
  if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
}
parts=0  # that match
if [[ device_tests =~ $only ]]; then
  parts=1
  run_tests
fi

# Runs a command and counts it as one: passed, skipped (status 77, or no device) or failed.
run() {  # TITLE COMMAND...
  local status=77
  [[ $1 =~ $only ]] || return
  parts=$((parts + 1))
  echo "== $1"
  shift
  if [ "$has_device" = yes ]; then
    "$@" | tee "$work/said"
    status=${PIPESTATUS[0]}
    grep '^goal: ' "$work/said" >>"$work/goals"
  fi
  case $status in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
  esac
}

# The tests of our own kernels once more, under a tool of CUDA's that looks for errors in them.
sanitized() {  # TOOL
  local status tests='*KernelsConformance*:Sparse*:DeviceEncoder*'
  # Layers read what cuDNN's kernels write, which are not looked at.
  [ "$1" = initcheck ] || tests+=':*DeviceLayerTest*'
  if [ -z "$sanitizer" ]; then
    echo "compute-sanitizer is neither in PATH nor in /usr/local/cuda/bin"
    return 77
  fi
  # The tools wait for each kernel: several processes, each with some of the tests, take turns.
  local pids=() part one
  for ((part = 0; part < sanitized_parts; ++part)); do
    GTEST_TOTAL_SHARDS=$sanitized_parts GTEST_SHARD_INDEX=$part \
      timeout --kill-after 30 "$sanitizer_s" "$sanitizer" --tool "$1" --error-exitcode 99 \
      --kernel-name kns=strata "$bin/device_tests" "$plugin" --gtest_brief=1 \
      --gtest_filter="$tests:-*OnFake.*" >"$log.$part" 2>&1 &
    pids+=($!)
  done
  status=0
  for one in "${pids[@]}"; do
    wait "$one"
    one=$?
    # Out of time counts less than any other end.
    case $status in 0 | 124 | 137) [ "$one" -eq 0 ] || status=$one ;; esac
  done
  tail -q -n 20 "$log".[0-9]*
  cat "$log".[0-9]* >"$log"
  if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
    echo "it did not end in $sanitizer_s s"
    ! grep -qE '^=+ (Invalid|Error|Uninit|Barrier error|Race reported|Host API|Program hit)' \
      "$log" || return 1
    return 77
  fi
  # Its findings count, whatever its exit status.
  grep -qE '(ERROR|RACECHECK) SUMMARY: [1-9]' "$log" && return 1
  return "$status"
}
for tool in memcheck racecheck initcheck synccheck; do
  run "compute-sanitizer: $tool" sanitized "$tool"
done

for benchmark in device_benchmark device_arenas_benchmark device_encoder_benchmark; do
  run "$benchmark" "$bin/$benchmark" "$plugin" --mib "$mib"
done

# A job of 2 ranks, which share the GPU, their aggregator and a server. Says what weights it ends
# with. GPUS: which there are, and for how many ranks each.
weights_of() {  # NAME SETTING...
  local name=$1 settings=()
  shift
  for setting in "$@"; do settings+=(--set "$setting"); done
  "$bin/strata" local --slots 2 --device-plugin "$plugin" ${GPUS:---gpus 0 --ranks-per-gpu 2} \
    --job "$bin/../tests/gpu/devices.textproto" --set name="$name" \
    --set program.path="$bin/device_rank" --runs "$work" --set run_dir="$work/$name" \
    "${settings[@]}" >"$log" 2>&1 || { cat "$log" >&2; return 1; }
  grep -a '^weights ' "$work/$name/logs/rank0.log"
}

# Checks that a job ends with the expected weights; "any": with some weights.
ends_with() {  # EXPECTED NAME SETTING...
  local expected=$1 found
  shift
  found=$(weights_of "$@")
  [ -n "$found" ] && { [ "$expected" = any ] || [ "$found" = "$expected" ]; } && return 0
  if grep -qaE 'libnccl\.so\.2: |header nccl\.h was missing' "$log"; then
    echo "there is no NCCL here"
    return 77
  fi
  echo "$1: ${found:-no weights}; expected: $expected"
  return 1
}

# The same bits as with servers and without a GPU. The settings are of the job on the GPU alone.
as_on_cpu() {  # NAME RANKS SETTING...
  local name=$1 ranks=$2 expected
  shift 2
  expected=$(weights_of "$name-cpu" device=CPU "ranks=$ranks") || return 1
  ends_with "$expected" "$name" device=GPU "ranks=$ranks" "$@"
}
run "a job: sync" as_on_cpu sync 2
# In the other modes it is the order of pushes that decides.
run "a job: lazy" ends_with any lazy device=GPU consistency.lazy={}
run "a job: async" ends_with any async device=GPU consistency.async={}

# The timeline of the first 20 steps has what the GPU did, in rows of its own.
traced() {
  local file=$work/trace.json name count
  "$bin/strata" local --slots 2 --device-plugin "$plugin" --gpus 0 --ranks-per-gpu 2 \
    --job "$bin/../tests/gpu/devices.textproto" --set name=traced --set device=GPU \
    --set program.path="$bin/device_rank" --runs "$work" --set run_dir="$work/traced" \
    --trace "$file" >"$log" 2>&1 || { cat "$log" >&2; return 1; }
  for name in sum "to host" "to device"; do
    count=$(grep -c "^{\"ph\":\"X\",\"name\":\"$name\"" "$file")
    echo "$name: $count times"
    [ "$count" -ge 20 ] || return 1
  done
  for name in sums "to host" "to device"; do grep -qF "\"GPU 0: $name\"" "$file" || return 1; done
}
run "a job: its timeline" traced

# MiB of the GPUs' memory in use by whomever; 0 where the driver's tool is not there to tell.
used_mib() {
  nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null |
    awk '{ sum += $1 } END { print sum + 0 }'
}
# A rank of the job with so many steps.
rank_with() {  # STEPS
  local file line
  for file in /proc/[0-9]*/cmdline; do
    line=$(tr '\0' ' ' 2>/dev/null <"$file") || continue
    [[ $line == "$bin/device_rank stream $1 "* ]] && echo "${file//[!0-9]/}" && return
  done
}
# One of two ranks is killed while their aggregator has its arena: the job fails and names it, and
# what it had of the GPU's memory is given back.
killed() {
  local before job rank="" status
  before=$(used_mib)
  sed 's/"50"/"1000000000"/' \
    "$bin/../tests/gpu/devices.textproto" >"$work/killed.textproto"
  "$bin/strata" local --slots 2 --device-plugin "$plugin" --gpus 0 --ranks-per-gpu 2 \
    --job "$work/killed.textproto" --set name=killed --set program.path="$bin/device_rank" \
    --runs "$work" --set run_dir="$work/killed" >"$log" 2>&1 &
  job=$!
  for ((look = 0; look < 600; ++look)); do
    rank=$(rank_with 1000000000)
    [ -z "$rank" ] || break
    sleep 0.1
  done
  sleep 3
  [ -z "$rank" ] || kill -KILL "$rank"
  [ -n "$rank" ] || kill -TERM "$job"
  wait "$job"
  status=$?
  grep -a 'killed by signal 9' "$log" && [ "$status" -ne 0 ] || { cat "$log"; return 1; }
  for ((look = 0; look < 100; ++look)); do
    [ "$(used_mib)" -gt $((before + 64)) ] || return 0
    sleep 0.1
  done
  echo "$(used_mib) MiB in use; before the job: $before MiB"
  return 1
}
run "a job: a rank is killed" killed

# With a GPU for each rank: NCCL adds up their gradients.
on_two_gpus() {
  if [ "${devices:-0}" -lt 2 ]; then
    echo "there are not two GPUs here"
    return 77
  fi
  GPUS="--gpus 0,1" as_on_cpu node-sum 2 node_sum=NCCL
}
run "a job: node_sum NCCL" on_two_gpus

# A job of one rank, which applies the optimizer on the GPU: without exchange, and alone with NCCL.
for exchange in NONE NCCL; do
  run "a job of one rank: exchange $exchange" as_on_cpu "one-$exchange" 1 "exchange=$exchange"
done

# Checks whether the log reports that.
lacks_cudnn() {
  grep -qaE 'libcudnn\.so\.9|libcublas\.so|cudnn\.h' "$log" && echo "there is no cuDNN here"
}

# LeNet-5 on cuDNN: 2 ranks that share the GPU, their aggregator and a server.
lenet5() {  # SETTING
  local accuracy
  "$bin/strata" local --slots 2 --device-plugin "$plugin" --gpus 0 --ranks-per-gpu 2 \
    --job "$bin/../tests/gpu/lenet5.textproto" --set "$1" \
    --runs "$work" --set run_dir="$work/lenet5-$1" >"$log" 2>&1
  accuracy=$(sed -n 's/.*finished after .*, test accuracy \([0-9.]*\)$/\1/p' "$log")
  echo "accuracy ${accuracy:-none}"
  awk -v got="${accuracy:-0}" 'BEGIN { exit !(got >= 0.9) }' && return 0
  lacks_cudnn && return 77
  cat "$log"
  return 1
}
for setting in consistency.sync={} consistency.lazy={} consistency.async={} \
  model.precision=TF32 model.precision=BF16; do
  run "LeNet-5: $setting" lenet5 "$setting"
done

# Ranks in Python, 2 on one GPU. Says what rank 0 prints. OPTIONS: of strata run.
in_python() {  # SCRIPT PLACE [ARGUMENT]
  PYTHONPATH=$bin/../python STRATA_CLIENT_LIBRARY=$bin/libstrata_client_bundled.so \
    "$bin/strata" run -n 2 --servers 1 --runs "$work/python" ${OPTIONS:-} \
    "$bin/../tests/gpu/$1" "${@:2}" >"$log" 2>&1 || { cat "$log" >&2; return 1; }
  grep -aoE '^(weights|accuracy) .*' "$log"
}
on_gpu_in_python() { OPTIONS="$gpu_options" in_python "$@"; }
gpu_options="--device-plugin $plugin --gpus 0 --ranks-per-gpu 2 --set device=GPU"
lacks_torch() {
  local why
  why=$(python3 -c 'import torch; print("" if torch.cuda.is_available() else "no CUDA")' 2>&1)
  [ -n "$why" ] && echo "python3 has no PyTorch that finds a GPU: ${why##*$'\n'}"
}
# The same bits as without a GPU.
python_arrays() {  # [own_gpu]
  local expected found
  lacks_torch && return 77
  expected=$(in_python arrays.py cpu) && found=$(on_gpu_in_python arrays.py cuda "$@") || return 1
  [ -n "$expected" ] && [ "$found" = "$expected" ] && return 0
  echo "${found:-no weights}; expected: $expected"
  return 1
}
run "a job in Python: arrays" python_arrays
# On a GPU each, whose sums, being exact, have those bits, too.
python_arrays_by_nccl() {
  lacks_torch && return 77
  if [ "${devices:-0}" -lt 2 ]; then
    echo "there are not two GPUs here"
    return 77
  fi
  gpu_options="--device-plugin $plugin --gpus 0,1 --set device=GPU --set exchange=NCCL" \
    python_arrays own_gpu
}
run "a job in Python: arrays, exchange NCCL" python_arrays_by_nccl
python_lenet5() {  # WHERE THE OPTIMIZER IS
  local found
  lacks_torch && return 77
  found=$(on_gpu_in_python lenet5.py cuda "$1") || return 1
  echo "$found"
  awk '$1 == "accuracy" { got = $2 } END { exit !(got >= 0.9) }' <<<"$found"
}
for place in ranks servers; do
  run "LeNet-5 in Python: optimizer on the $place" python_lenet5 "$place"
done

# Images per second of the trainer's ranks with an exchange, beside as many with none, in turn.
bench_train() {  # OPTION...
  "$bin/strata" bench train --device GPU --device-plugin "$plugin" "$@" >"$log" 2>&1
  local status=$?
  cat "$log"
  [ "$status" -eq 0 ] || ! lacks_cudnn || return 77
  return "$status"
}
# The share of images/s that 2 ranks on one GPU keep when their gradients go through a server.
through_a_server() {
  bench_train --gpus 0 --ranks 2 --modes sync "${trained[@]}" || return
  awk '$1 == "mode" { for (i = NF; i > 0; --i) if ($i == "share") from_end = NF - i }
       $1 == "sync" && $2 == 2 { share = $(NF - from_end - 1) }
       END { printf "goal: 2 ranks on one GPU, sync through a server, beside no exchange: %s, " \
               "wanted at least 0.90: %s\n", share, (share >= 0.90 ? "reached" : "MISSED")
             exit !(share > 0) }' "$log"
}
run "bench train: a server beside no exchange" through_a_server
run "bench train: every exchange" bench_train --ranks 2 --modes sync,lazy,async,ring,nccl \
  "${exchanged[@]}"

beside_torch() {
  command -v python3 >/dev/null || return 77
  python3 "$bin/../bench/resnet50_against_torch.py" "$bin/strata" --device-plugin "$plugin"
}
run "ResNet-50 beside PyTorch" beside_torch
if [ "$parts" -eq 0 ]; then
  echo "strata: error: --only $only: matches no part" >&2
  exit 2
fi
if [ -s "$work/goals" ]; then
  echo "== what was wanted of its speed"
  [ "$mib" -eq 100 ] || echo "with --tiny these say nothing:"
  cut -d ' ' -f 2- "$work/goals"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
