#!/usr/bin/env bash
# Makes Debian packages with debhelper (deploy/debian/): strata, the program with its services;
# strata-cuda, the plugin for GPUs, where that was built; libstrata-client1 and libstrata-dev, for
# programs of one's own. What they depend on is what their files are linked with. The same input
# makes the same bytes.
#
# usage: deploy/debian.sh OUT_DIR [--built DIR]
#   OUT_DIR        where the packages go; made where missing
#   --built DIR    where program, library and plugin are built already; default: builds them
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=
built=

fail() { echo "strata: error: $*" >&2; exit 1; }
misused() { echo "strata: error: $*" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case "$1" in
    --built)
      [ $# -ge 2 ] || misused "--built needs a folder"
      built=$2
      shift
      ;;
    -*) misused "unknown option $1 (--built)" ;;
    *)
      [ -z "$out" ] || misused "$1: one folder is enough"
      out=$1
      ;;
  esac
  shift
done
[ -n "$out" ] || misused "usage: deploy/debian.sh OUT_DIR [--built DIR]"
while [[ $out == ?*/ ]]; do out=${out%/}; done
mkdir -p -- "$out" 2> /dev/null || misused "$out: cannot be made, so no packages can go there"
for tool in dh:debhelper chrpath:chrpath; do
  command -v "${tool%:*}" > /dev/null ||
    fail "${tool#*:} is not installed: deploy/install_packages.sh --tests"
done

program=cli/strata
library=worker/client/c/libstrata_client.so.1
plugin=kernels/cuda/libstrata_cuda.so
if [ -z "$built" ]; then
  built=$root/bazel-bin
  "$root/deploy/build.sh" "//${program%/*}:${program##*/}" "//${library%/*}:${library##*/}" ||
    fail "the build failed"
fi
version=$(sed -n 's/^#define STRATA_VERSION "\(.*\)"$/\1/p' "$root/common/version.h")
[ -n "$version" ] || fail "common/version.h: no version"

# Dates in the packages: that of the commit where there is one, unless it is given. It is part of
# the version, too, so that apt takes the package of a later commit for a newer one.
: "${SOURCE_DATE_EPOCH:=$(git -C "$root" log -1 --format=%ct 2> /dev/null || echo 315532800)}"
export SOURCE_DATE_EPOCH
commit=$(git -C "$root" rev-parse --short=12 HEAD 2> /dev/null || echo "a tree without git")
version+=+$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S)
maintainer="${DEBFULLNAME:-Strata maintainers} <${DEBEMAIL:-maintainers@strata.invalid}>"

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
umask 022
top=$stage/strata
mkdir -p "$top/built" "$top/deploy" "$top/docs" "$top/worker/client/c" "$top/common"
for file in "$plugin" "$program" "$library"; do
  if [ -e "$built/$file" ]; then
    install -m 755 "$built/$file" "$top/built/"
  elif [ "$file" = "$plugin" ]; then
    echo "no strata-cuda: $built/$plugin is not built (//kernels/cuda:${plugin##*/})"
    export DH_OPTIONS=-Nstrata-cuda
  else
    fail "$built/$file: is not there"
  fi
done
echo "copying what goes into the packages"
cp -RL "$root/deploy/debian" "$top/"
cp -L "$root/deploy/systemd/strata.sysusers" "$top/debian/strata.sysusers"
rm -f "$top/debian/README.md"
cp -RL "$root"/deploy/{templates,systemd,install_client.sh} "$top/deploy/"
cp -RL "$root/examples" "$top/"
cp -L "$root"/docs/*.md "$root"/docs/*.svg "$top/docs/"
python3 "$root/docs/generate/all.py" "$top/docs" --strata "$built/$program" > /dev/null ||
  fail "the reference pages could not be made"
cp -L "$root/README.md" "$top/"
# Not beside it: debhelper would take it for Debian's changelog.
cp -L "$root/CHANGELOG.md" "$top/docs/"
cp -L "$root"/worker/client/c/*.h "$top/worker/client/c/"
cp -L "$root/common/version.h" "$top/common/"
find "$top/examples" \( -name BUILD -o -name __pycache__ \) -prune -exec rm -rf {} +

sed -i "s|@MAINTAINER@|$maintainer|" "$top/debian/control"
cat > "$top/debian/changelog" << END
strata ($version) unstable; urgency=medium

  * Built from $commit.
  * What is new: /usr/share/doc/strata/docs/CHANGELOG.md.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
END
log=$stage/log
# The longest of debhelper's steps, as it comes to them.
(cd "$top" && LC_ALL=C debian/rules binary) 2>&1 | tee "$log" |
  sed -u -n -e '/^[[:space:]]*dh_strip\>/c stripping what was built' \
    -e '/^[[:space:]]*dh_shlibdeps\>/c finding what it depends on' \
    -e '/^[[:space:]]*dh_builddeb\>/c compressing the packages' ||
  { tail -n 20 "$log" >&2; fail "debhelper could not make the packages"; }
grep '^strata: ' "$log" || true

# shown KB
shown() {
  if [ "$1" -lt 1024 ]; then
    echo "$1 kB"
  else
    echo "$(($1 / 1024)).$(($1 % 1024 * 10 / 1024)) MB"
  fi
}
for package in "$stage"/*.deb; do
  install -m 644 "$package" "$out/"
  echo "$out/${package##*/}: $(shown $((($(stat -c %s "$package") + 1023) / 1024)))," \
    "installed $(shown "$(dpkg-deb -f "$package" Installed-Size)")"
done
