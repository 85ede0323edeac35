#!/usr/bin/env bash
# The Debian packages of what Bazel built: the same bytes twice, nothing for lintian to say, and in
# a root that has nothing but Debian's essential packages and what ours depend on, they are
# installed, train, are upgraded, removed and purged (inside.sh).
set -uo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
here=$PWD
# shellcheck source=tests/deploy/skipped.sh
source tests/deploy/skipped.sh
for tool in dh:debhelper chrpath:chrpath lintian:lintian cc:g++ pkg-config:pkgconf; do
  need_tool "${tool%:*}" "${tool#*:}"
done
work=$(mktemp -d "$TEST_TMPDIR/debian-XXXXXX")
trap 'rm -rf "$work"' EXIT
plugin=kernels/cuda/libstrata_fake_device.so

# The fake device's plugin stands in for CUDA's, so that its package is looked at everywhere.
mkdir -p "$work/built/kernels/cuda" "$work/built/cli" "$work/built/worker/client/c"
cp -L cli/strata "$work/built/cli/"
cp -L worker/client/c/libstrata_client.so.1 "$work/built/worker/client/c/"
cp -L "$plugin" "$work/built/kernels/cuda/libstrata_cuda.so"
chmod -R u+w "$work/built"

# Fast, not small.
export SOURCE_DATE_EPOCH=1700000000 DPKG_DEB_COMPRESSOR_LEVEL=0
deploy/debian.sh "$work/second" --built "$work/built" > "$work/second.log" 2>&1 &
second=$!
deploy/debian.sh "$work/debs" --built "$work/built" > "$work/made" 2>&1
check "they are made" [ $? -eq 0 ]
wait "$second"
cat "$work/made"
names=(libstrata-client1 libstrata-dev strata strata-cuda)
for name in "${names[@]}"; do
  file=$(echo "$work/debs/${name}"_0.*+20231114221320_amd64.deb)
  check "$name is there, with the commit's date in its version" [ -f "$file" ]
  check "$name has the same bytes when it is made again" cmp "$file" "$work/second/${file##*/}"
done

lintian --allow-root --fail-on error,warning "$work"/debs/*.deb > "$work/lintian" 2>&1
check "lintian has nothing to say" [ $? -eq 0 ]
cat "$work/lintian"

dpkg-deb -x "$(echo "$work"/debs/strata_*.deb)" "$work/program"
check "the program takes the system's libraries" \
  [ "$(readelf -d "$work/program/usr/lib/strata/strata" | grep -cE 'RPATH|RUNPATH')" -eq 0 ]

mkdir -p "$work/without/cli" "$work/without/worker/client"
cp -r "$work/built/cli" "$work/built/worker" "$work/without/"
cp "$work/without/cli/strata" "$work/without/cli/other"
rm "$work/without/cli/strata"
words=$(deploy/debian.sh "$work/none" --built "$work/without" 2>&1)
check "a program that is not built is one line" \
  [ "$(tail -n 1 <<< "$words")" = "strata: error: $work/without/cli/strata: is not there" ]
check "a plugin that is not built is one line, too" \
  grep -q "^no strata-cuda: $work/without/kernels/cuda/libstrata_cuda.so is not built" <<< "$words"

# With the development package, as programs of others are built.
dpkg-deb -x "$(echo "$work"/debs/libstrata-dev_*.deb)" "$work/dev"
dpkg-deb -x "$(echo "$work"/debs/libstrata-client1_*.deb)" "$work/dev"
folder=$(echo "$work"/dev/usr/lib/*/pkgconfig)
flags=$(PKG_CONFIG_SYSROOT_DIR=$work/dev PKG_CONFIG_LIBDIR=$folder \
  pkg-config --cflags --libs strata_client)
check "pkg-config names no path for the run" [ "${flags/rpath/}" = "$flags" ]
# shellcheck disable=SC2086
cc -std=c11 "$work/dev/usr/share/doc/libstrata-dev/examples/linear.c" $flags -lm \
  -Wl,--allow-shlib-undefined -o "$work/linear"
check "a program is built with libstrata-dev" [ $? -eq 0 ]

[ "$failures" -eq 0 ] || exit 1
need_namespaces

# The packages' declared dependencies, and no others.
wanted=$(for file in "$work"/debs/*.deb; do dpkg-deb -f "$file" Pre-Depends Depends; done |
  tr ',' '\n' | sed 's/^[A-Z][A-Za-z-]*: *//; s/|.*//; s/(.*//; s/ //g' |
  grep -v '^libstrata\|^strata$' | sort -u)
# libspdlog's name with its fmt is a virtual one.
wanted=${wanted//libspdlog1.10-fmt9/libspdlog1.10}
# shellcheck disable=SC2086
python3 tests/deploy/fresh_root.py "$work/root" $wanted
check "a fresh root is made" [ $? -eq 0 ]
mkdir -p "$work/root/opt/test/job"
cp "$work"/debs/*.deb "$work/linear" tests/deploy/inside.sh "$work/root/opt/test/"
cp -L tests/gpu/sync.textproto examples/c/linear.textproto "$work/root/opt/test/job/"

# Mounts and processes end with the namespaces.
timeout --signal=KILL 100 unshare --kill-child --fork --mount --pid --net --uts --ipc \
  bash tests/deploy/enter.sh "$work/root" /bin/bash /opt/test/inside.sh > "$work/inside" 2>&1
check "they work in it" [ $? -eq 0 ]
cat "$work/inside"

# The same job by the program that was packed.
cli/strata local --nodes 2 --job tests/gpu/sync.textproto --runs "$work/runs" \
  --set run_dir=run > "$work/local" 2>&1
check "the same job runs here" [ $? -eq 0 ]
weights=$(sha256sum < "$work/runs/run/model.safetensors")
check "with the same bits in its weights" is_in "weights ${weights%% *}" "$work/inside"
check "no mount is left" [ "$(grep -c " $work" /proc/mounts)" -eq 0 ]
cd "$here" || exit 1
exit "$failures"
