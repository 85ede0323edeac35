#!/usr/bin/env bash
# Makes one wheel for pip, strata_train-VERSION-py3-none-manylinux_2_XX_x86_64.whl: the Python
# package, the client library, the program `strata`, and the libraries that these need besides
# glibc, under names of their own. The tag is what auditwheel finds. The same input makes the same
# bytes. MPI's plugin is left out, as it works with the MPI that it was built with alone.
#
# usage: deploy/wheel.sh [OUTPUT_DIR] [--built DIR]
#   OUTPUT_DIR     made where missing; default: the current folder
#   --built DIR    where program and library are built already; default: builds them
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=
built=

fail() { echo "strata: error: $*" >&2; exit 1; }
while [ $# -gt 0 ]; do
  case "$1" in
    --built)
      [ $# -ge 2 ] || { echo "strata: error: --built needs a folder" >&2; exit 2; }
      built=$2
      shift
      ;;
    -*) echo "strata: error: unknown option $1 (--built)" >&2; exit 2 ;;
    *)
      [ -z "$out" ] || { echo "strata: error: $1: one folder is enough" >&2; exit 2; }
      out=$1
      ;;
  esac
  shift
done
while [[ ${out:=.} == ?*/ ]]; do out=${out%/}; done
mkdir -p -- "$out" 2> /dev/null || {
  echo "strata: error: $out: cannot be made, so no wheel can go there" >&2
  exit 2
}
[ -f "$root/python/strata/__init__.py" ] || fail "python/strata: the package is not there"
tools=$("$root/deploy/python_env.sh" --print wheel)/bin
[ -n "$built" ] || "$root/deploy/python_env.sh" wheel
[ -x "$tools/auditwheel" ] || fail "auditwheel is missing: deploy/python_env.sh wheel"

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

# Dates inside of the archive: that of the commit where there is one, unless it is given.
: "${SOURCE_DATE_EPOCH:=$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 315532800)}"
export SOURCE_DATE_EPOCH
echo "putting the wheel together"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
umask 022
top=$stage/top
info=$top/strata_train-$version.dist-info
mkdir -p "$top" "$info/licenses"

(cd "$root/python" && find -L strata -type f \( -name '*.py' -o -name py.typed \)) |
  while read -r file; do install -D -m 644 "$root/python/$file" "$top/$file"; done
# add FILE FOLDER MODE: what was built, without the symbols that only debuggers read.
add() {
  [ -e "$built/$1" ] || fail "$built/$1: is not there"
  install -D -m "$3" "$built/$1" "$top/strata/$2/${1##*/}"
  chmod u+w "$top/strata/$2/${1##*/}"
  strip --strip-all "$top/strata/$2/${1##*/}"
}
add "$library" _lib 755
add "$program" _bin 755
[ ! -e "$built/$plugin" ] || add "$plugin" _bin 755
install -D -m 755 "$root/deploy/templates/strata_command.py" \
  "$top/strata_train-$version.data/scripts/strata"

sed "s/@VERSION@/$version/" "$root/deploy/templates/METADATA.in" > "$info/METADATA"
cp -L "$root/deploy/templates/entry_points.txt" "$info/entry_points.txt"
printf '%s\n' "Wheel-Version: 1.0" "Generator: strata ($version)" "Root-Is-Purelib: false" \
  "Tag: py3-none-linux_x86_64" > "$info/WHEEL"
cp -L "$root/LICENSE" "$info/licenses/"
# The licences of the libraries that auditwheel puts beside ours; dpkg knows some without /usr.
for file in "$top"/strata/_lib/* "$top"/strata/_bin/*; do ldd "$file"; done |
  awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | xargs -n 1 readlink -f | sort -u |
  while read -r file; do
    owner=$(dpkg-query -S "$file" "${file#/usr}" 2>/dev/null | head -n 1 | cut -d: -f1) || true
    case "$owner" in '' | libc6 | libgcc-s1 | libstdc++6 | zlib1g) continue ;; esac
    cp "/usr/share/doc/$owner/copyright" "$info/licenses/$owner"
  done

echo "adding the libraries that it needs, and compressing it"
find "$top" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
log=$stage/log
PATH=$tools:$PATH
mkdir "$stage/plain" "$stage/made"
make_wheel() {
  wheel pack --dest-dir "$stage/plain" "$top" &&
    auditwheel repair --wheel-dir "$stage/made" "$stage/plain"/*.whl
}
make_wheel > "$log" 2>&1 || { tail -n 5 "$log" >&2; fail "auditwheel could not make the wheel"; }
wheel=$(cd "$stage/made" && ls -- *.whl)

# The gate: what auditwheel finds in the finished file is the tag that it bears.
auditwheel show "$stage/made/$wheel" > "$log" 2>&1 || { cat "$log" >&2; fail "auditwheel show"; }
tag=$(tr '\n' ' ' < "$log" | sed -n 's/.*platform tag: *"\([^"]*\)".*/\1/p')
case "$tag" in manylinux_*) ;; *) cat "$log" >&2; fail "$wheel: is no manylinux wheel" ;; esac
case "$wheel" in *"$tag"*) ;; *) fail "$wheel: auditwheel calls it $tag" ;; esac

cp "$stage/made/$wheel" "$out/"
chmod 644 "$out/$wheel"
echo "$out/$wheel: $(du -m "$out/$wheel" | cut -f1) MB"
