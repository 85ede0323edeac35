#!/usr/bin/env bash
# Installs the client library, builds examples/c against it as a project of its own, and trains both
# programs: through several nodes and servers, and on one node alone.
set -euo pipefail
root=$PWD
strata=$root/cli/strata
prefix=$TEST_TMPDIR/prefix
work=$TEST_TMPDIR/work
mkdir -p "$work"
deploy/install_client.sh "$prefix" --library worker/client/c/libstrata_client.so.1
cp -rL examples/c "$work/source"
cd "$work"
cmake -S source -B build -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release > cmake.log ||
  { cat cmake.log; exit 1; }
cmake --build build >> cmake.log || { cat cmake.log; exit 1; }
PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --modversion strata_client
# shellcheck disable=SC2046
cc -std=c11 -Wall -Wextra -Werror source/linear.c \
  $(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs strata_client) -lm -o pkg

# Nothing but the API is seen from outside, and what the C++ library shows anyway.
if nm -D --defined-only "$prefix/lib/libstrata_client.so" |
  grep -v ' strata_\| STRATA_1$\| W _ZNSt' | grep ' [TWV] '; then
  echo "the library shows more than strata_*" >&2
  exit 1
fi

# train NAME OPTIONS: runs the job of that name; its ranks' logs are in runs/.
train() {
  local name=$1
  shift
  rm -rf runs
  "$strata" local --job "source/$name.textproto" --runs runs "$@" > "$name.log" 2>&1 ||
    { cat "$name.log" runs/*/logs/*; exit 1; }
}

train linear --servers 2 --nodes 2 --slots 2
grep -qx 'largest error of a weight: 0.00[0-9]*' runs/*/logs/rank0.log
train linear --servers 1 --nodes 1 --slots 4 --set program.path=./pkg \
  --set consistency.preset="ssp(2)"

# Four ranks have the same parameters on one node, without a server, and on four; with servers, too.
for shape in "--servers 0 --nodes 1 --slots 4" "--servers 0 --nodes 4 --slots 1" \
  "--servers 2 --nodes 2 --slots 2 --set exchange=PARAMETER_SERVER"; do
  # shellcheck disable=SC2086
  train own_optimizer $shape
  cat runs/*/logs/rank?.log > all
  [ "$(wc -l < all)" -eq 4 ] || { cat all; exit 1; }
  [ "$(sort -u all | wc -l)" -eq 1 ] || { cat all; exit 1; }
  grep -q '^largest error of a parameter: 0x1\.' all
done

# A rank whose samples are not the job's is the job's reason.
if "$strata" local --job source/own_optimizer.textproto --runs runs2 \
  --servers 0 --nodes 1 --slots 4 --set program.samples_per_rank=31 > wrong.log 2>&1; then
  echo "trained with other samples than the job says" >&2
  exit 1
fi
grep -q "32 samples, but the job's program.samples_per_rank is 31" wrong.log
