#!/usr/bin/env bash
# Makes one archive that runs on any x86-64 Linux with glibc 2.36 or later and no package
# installed: programs, plugins, the libraries that they need besides glibc, examples, and tests and
# benchmarks for GPUs. CUDA's driver and, where they are wanted, MPI come from the host.
#
# usage: deploy/bundle.sh [--out FILE] [--built DIR]
#   --out FILE     default: strata-bundle.tar.xz
#   --built DIR    where the programs are built already; default: builds them
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=strata-bundle.tar.xz
built=

fail() { echo "strata: error: $*" >&2; exit 1; }
while [ $# -gt 0 ]; do
  case "$1" in
    --out | --built) [ $# -ge 2 ] || { echo "strata: error: $1 needs a value" >&2; exit 2; } ;;&
    --out) out=$2 ;;
    --built) built=$2 ;;
    *) echo "strata: error: unknown option $1 (--out or --built)" >&2; exit 2 ;;
  esac
  shift 2
done

# Below the folder of what Bazel built. Plugins are packed where they were built.
programs=(cli/strata bench/strata-kernels tests/gpu/device_tests
  kernels/device/device_benchmark tests/e2e/testing/device_rank
  worker/aggregator/device/device_arenas_benchmark
  worker/aggregator/device/device_encoder_benchmark)
client=worker/client/c/libstrata_client_bundled.so
plugins=(kernels/cuda/libstrata_cuda.so worker/client/libstrata_mpi.so)

if [ -z "$built" ]; then
  built=$root/bazel-bin
  targets=()
  for program in "${programs[@]}" "$client"; do targets+=("//${program%/*}:${program##*/}"); done
  "$root/deploy/build.sh" "${targets[@]}" || fail "the build failed"
fi

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
top=$stage/strata
mkdir -p "$top/bin" "$top/lib/strata" "$top/tests/gpu"
for program in "${programs[@]}" "$client"; do
  [ -x "$built/$program" ] || fail "$built/$program: is not there"
  install -m 755 "$built/$program" "$top/bin/"
done
for plugin in "${plugins[@]}"; do
  [ ! -e "$built/$plugin" ] || install -m 755 "$built/$plugin" "$top/bin/"
done

# glibc is the host's; so is MPI, whose plugin says so when it is loaded.
is_of_host() {
  case "$1" in
    linux-vdso.so* | ld-linux* | libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | \
      librt.so.* | libresolv.so.* | libutil.so.* | libcuda.so.*) return 0 ;;
  esac
  return 1
}
while read -r name _ path _; do
  is_of_host "$name" && continue
  [ "$path" != not ] || fail "$name: is not on this machine"
  cp -L "$path" "$top/lib/strata/$name"
done < <(for program in "${programs[@]}" "$client" kernels/cuda/libstrata_cuda.so; do
  [ ! -e "$built/$program" ] || ldd "$built/$program"
done | awk '$2 == "=>"' | sort -u)

cp -RL "$root/examples" "$top/examples"
find "$top/examples" -name BUILD -delete
install -m 755 "$root/tests/gpu/run.sh" "$top/tests/gpu/"
mkdir -p "$top/bench/peers"
cp "$root/bench/resnet50_against_torch.py" "$top/bench/"
cp "$root/bench/peers/torch_resnet50.py" "$top/bench/peers/"
cp "$root"/tests/gpu/*.textproto "$root"/tests/gpu/*.py "$top/tests/gpu/"
mkdir -p "$top/python"
cp -RL "$root/python/strata" "$top/python/"
find "$top/python" -name __pycache__ -prune -exec rm -rf {} +
"$built/cli/strata" man "$top/share/man/man1"
mkdir -p "$top/share/bash-completion/completions"
"$built/cli/strata" completion bash >"$top/share/bash-completion/completions/strata"
cp "$root/LICENSE" "$top/"
cp "$root/deploy/bundle_readme.md" "$top/README.md"
XZ_OPT=${XZ_OPT:--T0} tar -C "$stage" --sort=name --owner=0 --group=0 --mtime=@0 -cJf "$out" strata
echo "$out: $(du -m "$out" | cut -f1) MB"
