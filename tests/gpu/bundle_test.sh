#!/usr/bin/env bash
# A bundle made of what Bazel built runs elsewhere, with its own libraries and without the source.
#   bundle_test.sh [--whole]     --whole: with all its tests, benchmarks and jobs. Without: some of
#                                each kind, since the suite runs all on the same fake device.
set -uo pipefail
parts=(--only '^device_(tests|arenas|encoder)|job|y\.sync|Python|every')
tests_run='*KernelsConformance.Sum*:*Sparse*:*Communicator*:*DeviceArenas*:*DeviceTest*'
tests_run+=':*DeviceEncoder*:*DeviceSteps*:*NodeReducer*:Concat/DeviceLayer*:*DeviceModel*'
tests_run+=':-*OnFake.*'
goals_said=3
if [ "${1:-}" = --whole ]; then parts=() tests_run='-*OnFake.*' goals_said=5; fi
built=$PWD
fake=$built/kernels/cuda/libstrata_fake_device.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

check() {  # WHAT CONDITION...
  local what=$1
  shift
  if "$@"; then echo "ok: $what"; else echo "FAILED: $what"; failures=$((failures + 1)); fi
}
is_in() { grep -qF -- "$1" "$2"; }

XZ_OPT=-1 deploy/bundle.sh --built "$built" --out "$work/bundle.tar.xz" >"$work/packed" 2>&1
check "it is packed" is_in "bundle.tar.xz: " "$work/packed"
cat "$work/packed"
check "in at most 60 MB" [ "$(stat -c %s "$work/bundle.tar.xz")" -le 60000000 ]
mkdir "$work/elsewhere"
tar -C "$work/elsewhere" -xJf "$work/bundle.tar.xz"
cd "$work/elsewhere/strata" || exit 1

# Nothing of the system's but glibc.
for program in bin/strata bin/device_tests bin/device_benchmark bin/device_rank \
  bin/device_arenas_benchmark bin/device_encoder_benchmark bin/libstrata_client_bundled.so; do
  env -i /usr/bin/ldd "$program" | awk '$2 == "=>" && $3 !~ /lib\/strata/ { print $1 }' |
    grep -vE '^(linux-vdso|libc|libm|libdl|libpthread|librt|libresolv)\.so' >"$work/others"
  check "$program finds its libraries in the bundle" [ ! -s "$work/others" ]
  cat "$work/others"
done

env -i bin/strata --version >"$work/version" 2>&1
check "it starts" is_in "strata " "$work/version"
env -i bin/strata devices --device-plugin "$fake" >"$work/devices" 2>&1
check "it loads a plugin" is_in "fake device" "$work/devices"
env -i bin/strata local --nodes 2 --job tests/gpu/sync.textproto --runs "$work/runs" \
  --set run_dir=run >"$work/local" 2>&1
check "it trains" [ $? -eq 0 ]
tail -n 3 "$work/local"

run_gpu() {  # PLUGIN OPTION...
  env -i PATH=/usr/bin:/bin GTEST_FILTER="$tests_run" \
    tests/gpu/run.sh --tiny --compute-sanitizer none --device-plugin "$@"
}
run_gpu "$work/none.so,devices=2" >"$work/no_plugin" 2>&1
check "a plugin that is not there is an error" [ $? -eq 2 ]
check "which names it" \
  [ "$(cat "$work/no_plugin")" = "strata: error: --device-plugin $work/none.so: is not there" ]
tests/gpu/run.sh --help >"$work/help"
check "it tells its options" is_in "--compute-sanitizer" "$work/help"
run_gpu "$fake" "${parts[@]}" >"$work/gpu" 2>&1
check "its tests pass on the fake device" [ $? -eq 0 ]
tail -n 1 "$work/gpu"
last() { tail -n 1 "$work/$1"; }
# PyTorch has no fake device; some tests want two or three.
check "and are counted" grep -qE '^[1-9][0-9]* passed, 0 failed, [0-9]+ skipped$' <(last gpu)
grep -E 'SKIPPED|Skipped' "$work/gpu" | sort | uniq -c
for suite in KernelsConformance SparseTest SparseLargestTest CommunicatorTest DeviceArenasTest \
  DeviceTest DeviceEncoderTest DeviceStepsTest NodeReducerTest DeviceLayerTest DeviceModelTest; do
  check "$suite is among them" grep -qE "^\[       OK \] (.*/)?$suite\." "$work/gpu"
done
env -i bin/device_tests "$fake,devices=4" \
  --gtest_filter='DeviceTest*:Communicator*:DeviceSteps*:NodeReducer*:*DeviceArenas*:-*OnFake.*' \
  >"$work/four" 2>&1
check "on four devices, all of those for several" [ $? -eq 0 ]
check "and none is skipped" [ "$(grep -c SKIPPED "$work/four")" -eq 0 ]
check "without what only fake devices can do" \
  [ "$(grep -c '^\[ RUN .*OnFake' "$work/gpu")" -eq 0 ]
check "without a PyTorch for GPUs, what is in Python says so" \
  [ "$(grep -c '^python3 has no PyTorch that finds a GPU: ' "$work/gpu")" -eq 4 ]
goals=$(sed -n '/^== what was wanted of its speed/,$p' "$work/gpu")
echo "$goals"
# PyTorch's is the sixth of all.
check "with what was wanted of its speed, and what it is" [ "$(grep -cE \
  ': [0-9.]+, wanted at (least|most) [0-9.]+: (reached|MISSED)$' <<<"$goals")" -eq "$goals_said" ]
check "NCCL with too few GPUs is a row that says so" grep -qE \
  '^nccl +2 .*NCCL needs a GPU for each rank: 2 ranks, 1 GPU$' "$work/gpu"

# Stands in for compute-sanitizer: runs the program, and finds something with one of its tools.
cat >"$work/sanitizer" <<'END'
#!/bin/bash
tool=$2 code=$4
shift 6
echo "$@"
"$@" --gtest_filter='*KernelsConformance.Sum*' || exit
case $tool in
  racecheck) echo "========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)"
             exit "$code" ;;
  initcheck) echo "========= ERROR SUMMARY: 1 error" ;;
  *) echo "========= ERROR SUMMARY: 0 errors" ;;
esac
END
chmod +x "$work/sanitizer"
run_gpu "$fake" --only compute-sanitizer --compute-sanitizer "$work/sanitizer" \
  >"$work/sanitized" 2>&1
check "what a sanitizer finds is a failure" [ $? -ne 0 ]
check "of its tool" [ "$(last sanitized)" = "2 passed, 2 failed, 0 skipped" ]
# Each tool has several processes, which share the tests out.
shares=$(($(nproc) < 6 ? $(nproc) : 6))
check "all tests of kernels run under it" \
  [ "$(grep -c 'device_tests .*--gtest_filter=[*]KernelsConformance[*]:' "$work/sanitized")" \
  -eq $((4 * shares)) ]
check "those of layers, too, where cuDNN's own kernels do not matter" \
  [ "$(grep -c ':[*]DeviceLayerTest[*]:' "$work/sanitized")" -eq $((3 * shares)) ]
sums=$("$work/elsewhere/strata/bin/device_tests" "$fake" --gtest_list_tests \
  --gtest_filter='*KernelsConformance.Sum*' | grep -c '^  ')
check "and it runs them, each once" [ "$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' \
  "$work/sanitized" | awk '{ all += $1 } END { print all }')" -eq $((4 * sums)) ]
run_gpu "$fake" --only compute-sanitizer >"$work/unsanitized" 2>&1
check "without one, that is said" \
  [ "$(grep -c '^compute-sanitizer is neither in PATH' "$work/unsanitized")" -eq 4 ]
check "and counted" [ "$(last unsanitized)" = "0 passed, 0 failed, 4 skipped" ]
run_gpu "$fake,devices=2" --only 'node_sum' >"$work/two" 2>&1
check "two GPUs' ranks add up by NCCL" [ "$(last two)" = "1 passed, 0 failed, 0 skipped" ]
run_gpu "$fake,devices=0" >"$work/none" 2>&1
check "without a device they are skipped" [ "$(last none)" = "0 passed, 0 failed, 28 skipped" ]
run_gpu "$fake,fails_at=5" --only "device_tests|a job: sync" >"$work/fails" 2>&1
check "where one fails, that is told" [ $? -ne 0 ]
check "and counted" grep -qE ', [1-9][0-9]* failed, ' <(last fails)
exit "$failures"
