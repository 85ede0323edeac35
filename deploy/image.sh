#!/usr/bin/env bash
# Makes an image for containers (an archive of the OCI layout) that holds the program, glibc, the
# libraries that the program is linked with, libcurl for S3, and certificates: no shell, no package
# manager, no CUDA. It is begun from nothing, with files of this machine's Debian packages, and
# names those as scanners look for them. Another user than root, and a root that may be read-only.
# The same input makes the same digest.
#
# usage: deploy/image.sh OUT.tar [--built DIR]
#   OUT.tar        for podman load, docker load, skopeo; its folder is made where missing
#   --built DIR    where the program is built already; default: builds it
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=
built=
uid=65532 # as other images without a shell have it

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
      [ -z "$out" ] || misused "$1: one file is enough"
      out=$1
      ;;
  esac
  shift
done
[ -n "$out" ] || misused "usage: deploy/image.sh OUT.tar [--built DIR]"
[ ! -d "$out" ] || misused "$out: is a folder; name a file in it"
folder_of_out=$(dirname -- "$out")
mkdir -p -- "$folder_of_out" 2> /dev/null ||
  misused "$folder_of_out: cannot be made, so no image can go there"
command -v umoci > /dev/null || fail "umoci is not installed: deploy/install_packages.sh --tests"

program=cli/strata
if [ -z "$built" ]; then
  built=$root/bazel-bin
  "$root/deploy/build.sh" "//${program%/*}:${program##*/}" || fail "the build failed"
fi
[ -x "$built/$program" ] || fail "$built/$program: is not there"
version=$(sed -n 's/^#define STRATA_VERSION "\(.*\)"$/\1/p' "$root/common/version.h")
[ -n "$version" ] || fail "common/version.h: no version"
: "${SOURCE_DATE_EPOCH:=$(git -C "$root" log -1 --format=%ct 2> /dev/null || echo 315532800)}"
revision=$(git -C "$root" rev-parse HEAD 2> /dev/null || echo unknown)
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

echo "copying the program and its libraries"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
umask 022
top=$stage/root
mkdir -p "$top/etc/ssl/certs" "$top/usr/bin" "$top/usr/lib64" "$top/var/lib/dpkg/status.d" \
  "$top/usr/share/doc/strata" "$top/proc" "$top/sys" "$top/dev" "$top/run"
mkdir -m 1777 "$top/tmp"
for folder in bin lib lib64; do ln -s "usr/$folder" "$top/$folder"; done

install -m 755 "$built/$program" "$top/usr/bin/strata"
strip --strip-all "$top/usr/bin/strata"
cp -L "$root/LICENSE" "$top/usr/share/doc/strata/"
mkdir "$top/usr/share/doc/strata/examples"
cp -L "$root"/examples/*.textproto "$top/usr/share/doc/strata/examples/"

# Libraries at the places where the dynamic linker of Debian looks, under the names that it wants.
folder=usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
libraries=$top/$folder
curl=/$folder/libcurl.so.4 # loaded when a bucket is opened
[ -e "$curl" ] || fail "libcurl4 is not installed: deploy/install_packages.sh"
mkdir -p "$libraries"
sources=(/etc/ssl/certs/ca-certificates.crt)
# add NAME FILE
add() {
  local folder=$libraries
  [[ $1 != ld-linux* ]] || folder=$top/usr/lib64
  cp -L "$2" "$folder/$1"
  chmod 755 "$folder/$1"
  sources+=("$(readlink -f "$2")")
}
add libcurl.so.4 "$curl"
while read -r name path; do
  [ "$path" != not ] || fail "$name: is not on this machine"
  add "${name##*/}" "$path"
done < <({ ldd "$built/$program"; ldd "$curl"; } |
  awk '$2 == "=>" { print $1, $3 } $1 ~ /^\/.*ld-linux/ { print $1, $1 }' |
  grep -v '^linux-vdso' | sort -u)

# Each package's description, for scanners of known vulnerabilities, and its licence.
for source in "${sources[@]}"; do
  [ "$source" != "${sources[0]}" ] || { echo ca-certificates; continue; }
  dpkg-query -S "$source" "${source#/usr}" 2> /dev/null | head -n 1 | cut -d: -f1 || true
done | sort -u > "$stage/packages"
echo base-files >> "$stage/packages" # says which Debian
while read -r package; do
  dpkg-query -s "$package" > "$top/var/lib/dpkg/status.d/$package"
  install -D -m 644 "/usr/share/doc/$package/copyright" "$top/usr/share/doc/$package/copyright"
done < "$stage/packages"

cp -L /usr/lib/os-release "$top/usr/lib/os-release"
ln -s ../usr/lib/os-release "$top/etc/os-release"
cp -L /etc/ssl/certs/ca-certificates.crt "$top/etc/ssl/certs/"
printf '%s\n' root:x:0:0:root:/root:/sbin/nologin \
  "strata:x:$uid:$uid:Strata:/var/lib/strata:/sbin/nologin" > "$top/etc/passwd"
printf '%s\n' root:x:0: "strata:x:$uid:" > "$top/etc/group"
echo "hosts: files dns" > "$top/etc/nsswitch.conf"

echo "packing them"
# pack TAR OPTIONS: the same bytes for the same files.
pack() {
  tar -C "$top" --format=gnu --sort=name --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" "$@"
}
layer=$stage/layer.tar
pack --owner=0 --group=0 -cf "$layer" .
mkdir "$top/var/lib/strata"
pack --owner="$uid" --group="$uid" -rf "$layer" ./var/lib/strata

layout=$stage/layout
image=$layout:strata
echo "compressing the layer"
umoci_quietly() { umoci --log=error "$@" || fail "umoci $*"; }
umoci_quietly init --layout "$layout"
umoci_quietly new --image "$image"
umoci_quietly raw add-layer --image "$image" --history.created "$created" \
  --history.created_by "deploy/image.sh" "$layer"
label=org.opencontainers.image
umoci_quietly config --image "$image" --no-history --created "$created" --architecture amd64 \
  --os linux --config.user "$uid:$uid" --config.workingdir /var/lib/strata \
  --config.volume /var/lib/strata --config.env PATH=/usr/bin --config.env HOME=/var/lib/strata \
  --config.entrypoint /usr/bin/strata --config.cmd --help --config.stopsignal SIGTERM \
  --config.label "$label.title=strata" --config.label "$label.version=$version" \
  --config.label "$label.revision=$revision" --config.label "$label.licenses=Apache-2.0"
umoci_quietly gc --layout "$layout"

echo "writing the archive"
tar -C "$layout" --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mode=u+w,go+r \
  --mtime="@$SOURCE_DATE_EPOCH" -cf "$out" .
digest=$(grep -o 'sha256:[0-9a-f]*' "$layout/index.json")
echo "$out: $digest"
mb() { echo "$((($(stat -c %s "$1") + 500000) / 1000000)) MB"; }
echo "$(wc -l < "$stage/packages") packages of Debian; unpacked $(mb "$layer"), compressed," \
  "as it is pulled, $(mb "$out")"
