#!/usr/bin/env bash
# A bundle made of what Bazel built runs elsewhere, with its own libraries and without the source.
set -uo pipefail
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
for program in bin/strata bin/device_conformance bin/device_benchmark bin/device_rank \
  bin/device_arenas_benchmark; do
  env -i /usr/bin/ldd "$program" | awk '$2 == "=>" && $3 !~ /lib\/strata/ { print $1 }' |
    grep -vE '^(linux-vdso|libc|libm|libdl|libpthread|librt|libresolv)\.so' >"$work/others"
  check "$program finds its libraries in the bundle" [ ! -s "$work/others" ]
  cat "$work/others"
done

env -i bin/strata --version >"$work/version" 2>&1
check "it starts" is_in "strata " "$work/version"
env -i bin/strata devices --device-plugin "$fake" >"$work/devices" 2>&1
check "it loads a plugin" is_in "fake device" "$work/devices"
env -i bin/strata local --nodes 2 --job tests/gpu/sync.textproto --set run_dir="$work/run" \
  >"$work/local" 2>&1
check "it trains" [ $? -eq 0 ]
tail -n 3 "$work/local"

run_gpu() { env -i PATH=/usr/bin:/bin tests/gpu/run.sh --tiny --device-plugin "$1"; }
run_gpu "$fake" >"$work/gpu" 2>&1
check "its tests pass on the fake device" [ $? -eq 0 ]
tail -n 1 "$work/gpu"
last() { tail -n 1 "$work/$1"; }
# PyTorch has no fake device.
check "and are counted" grep -qE '^[1-9][0-9]* passed, 0 failed, 1 skipped$' <(last gpu)
check "with what an exchange leaves of images/s" grep -qE \
  '^2 ranks on one GPU, sync through a server: [0-9.]+ of their images/s' "$work/gpu"
check "NCCL with too few GPUs is a row that says so" grep -qE \
  '^nccl +2 .*NCCL needs a GPU for each rank: 2 ranks, 1 GPU$' "$work/gpu"
run_gpu "$fake,devices=0" >"$work/none" 2>&1
check "without a device they are skipped" [ "$(last none)" = "0 passed, 0 failed, 16 skipped" ]
run_gpu "$fake,fails_at=5" >"$work/fails" 2>&1
check "where one fails, that is told" [ $? -ne 0 ]
check "and counted" grep -qE ', [1-9][0-9]* failed, ' <(last fails)
exit "$failures"
