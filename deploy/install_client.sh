#!/usr/bin/env bash
# Installs the client library for C and C++: headers, libstrata_client.so, and what
# pkg-config and CMake find them by. Builds it first, unless it is told where it is.
#
# usage: deploy/install_client.sh PREFIX [--library FILE] [--libdir DIR] [--destdir DIR]
#   PREFIX           for example ~/strata or /usr/local
#   --library FILE   a libstrata_client.so.1 that was built before
#   --libdir DIR     below PREFIX, for libraries (default: lib)
#   --destdir DIR    puts all below DIR, for packages: the dynamic linker finds what is there later
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

fail() { echo "strata: error: $1" >&2; exit 2; }
[ $# -ge 1 ] || fail "usage: deploy/install_client.sh PREFIX [--library FILE] (see its first lines)"
case "$1" in -*) fail "PREFIX is missing before $1" ;; esac
prefix=$1
shift
library= libdir=lib destdir=
while [ $# -gt 0 ]; do
  case "$1" in
    --library) library=${2:?--library needs a file}; shift 2 ;;
    --libdir) libdir=${2:?--libdir needs a folder}; shift 2 ;;
    --destdir) destdir=${2:?--destdir needs a folder}; shift 2 ;;
    *) fail "unknown option $1 (--library, --libdir or --destdir)" ;;
  esac
done
if [ -z "$library" ]; then
  "$root/deploy/build.sh" //worker/client/c:libstrata_client.so.1
  library=$root/bazel-bin/worker/client/c/libstrata_client.so.1
fi
[ -f "$library" ] || fail "$library: no such file"

if [ -z "$destdir" ]; then
  mkdir -p "$prefix"
  prefix=$(cd "$prefix" && pwd)
fi
top=$destdir$prefix
version=$(sed -n 's/^#define STRATA_VERSION "\(.*\)"$/\1/p' "$root/common/version.h")
headers=$root/worker/client/c
for header in strata_client.h strata_client_{checkpoints,devices,views}.h; do
  install -D -m 644 "$headers/$header" "$top/include/$header"
done
install -D -m 755 "$library" "$top/$libdir/libstrata_client.so.$version"
# Its soname: later versions only add to it.
ln -sf "libstrata_client.so.$version" "$top/$libdir/libstrata_client.so.1"
ln -sf libstrata_client.so.1 "$top/$libdir/libstrata_client.so"

# From the folder of CMake's file to the prefix, and what programs look for the library in.
up=../../$(sed 's|[^/]*|..|g' <<< "$libdir")
rpath=" -Wl,-rpath,\${libdir}"
[ -z "$destdir" ] || rpath=
# fill TEMPLATE FILE: writes the template with this version and place.
fill() {
  mkdir -p "$(dirname "$2")"
  sed -e "s|@PREFIX@|$prefix|g" -e "s|@LIBDIR@|$libdir|g" -e "s|@VERSION@|$version|g" \
    -e "s|@UP@|$up|g" -e "s|@RPATH@|$rpath|g" "$root/deploy/templates/$1" > "$2"
}
fill strata_client.pc.in "$top/$libdir/pkgconfig/strata_client.pc"
fill StrataClientConfig.cmake.in "$top/$libdir/cmake/StrataClient/StrataClientConfig.cmake"
fill StrataClientConfigVersion.cmake.in \
  "$top/$libdir/cmake/StrataClient/StrataClientConfigVersion.cmake"
echo "installed the client library $version in $top"
