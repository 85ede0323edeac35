#!/usr/bin/env bash
# Measures what a new user and a new CI machine wait for: in a root folder with nothing but Debian
# 12's base system, without caches, it runs deploy/quickstart.sh or tests/run.sh on a clone of HEAD.
# Prints the seconds of each part. Needs root, debootstrap, git, Debian's archive, and for the tests
# PyPI.
#
# usage: deploy/measure_fresh.sh [--tests] [--keep] [FOLDER]      default: /var/tmp/strata-fresh
#   --tests   the whole test suite in place of the quickstart
#   --keep    leaves the root folder behind
set -euo pipefail

fail() { echo "strata: error: $*" >&2; exit 2; }

what=quickstart keep=0 folder=
while [ $# -gt 0 ]; do
  case "$1" in
    --tests) what=tests ;;
    --keep) keep=1 ;;
    -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -*) fail "unknown option $1 (see --help)" ;;
    *) folder=$1 ;;
  esac
  shift
done
folder=$(realpath -m "${folder:-/var/tmp/strata-fresh}")
source=$(cd "$(dirname "$0")/.." && pwd)
[ "$(id -u)" -eq 0 ] || fail "a root folder is made by root"
for tool in debootstrap git unshare; do
  command -v "$tool" > /dev/null || fail "$tool is not there: apt-get install $tool"
done
[ ! -e "$folder" ] || fail "$folder is there: it would not be fresh"

# Everything is mounted in a namespace of its own, which ends with this process.
if [ "${STRATA_FRESH_INSIDE:-}" != 1 ]; then
  arguments=("$folder")
  [ "$what" = quickstart ] || arguments+=(--tests)
  [ "$keep" -eq 0 ] || arguments+=(--keep)
  exec env STRATA_FRESH_INSIDE=1 unshare --mount --pid --fork --kill-child \
    "$source/deploy/measure_fresh.sh" "${arguments[@]}"
fi
mount --make-rprivate /

clean_up() {
  local mounted
  for mounted in proc sys dev; do umount --recursive --lazy "$folder/$mounted" || true; done
  umount --lazy "$folder" || true
  if [ "$keep" -eq 0 ] && ! grep -q " $folder/" /proc/self/mounts; then
    rm -rf --one-file-system "$folder"
  fi
}
trap clean_up EXIT

echo "Making a root of Debian's base system in $folder (a minute)"
debootstrap --variant=minbase --include=ca-certificates,git,procps bookworm "$folder" \
  > "$folder.log" 2>&1 || fail "debootstrap: see $folder.log"
rm -f "$folder.log"
# The archives and certificates that this machine uses.
cp -rL /etc/apt/sources.list* /etc/apt/apt.conf.d "$folder/etc/apt/"
rm -f "$folder"/etc/apt/apt.conf.d/docker-*
cp -L /etc/resolv.conf "$folder/etc/resolv.conf"
cp -L /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/ca-certificates.crt"
# What is mounted in it ends with it, and what it does to / stays in it.
mount --bind "$folder" "$folder"
mount -t proc proc "$folder/proc"
mount --rbind /sys "$folder/sys"
mount --rbind /dev "$folder/dev"
git clone --quiet --depth 1 "file://$source" "$folder/root/strata"

passed_on=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8)
while IFS= read -r -d '' variable; do
  case "$variable" in PIP_* | *_proxy=* | *_PROXY=* | SSL_CERT_FILE=* | *CA_BUNDLE=*)
    passed_on+=("$variable") ;;
  esac
done < /proc/self/environ
timed() {
  local name=$1 began=$SECONDS status=0
  shift
  env -i "${passed_on[@]}" chroot "$folder" bash -c "cd /root/strata && $*" || status=$?
  echo "fresh: $name: $((SECONDS - began)) s (status $status)"
  return "$status"
}
echo "fresh: $(nproc) cores, commit $(git -C "$source" rev-parse --short HEAD)"
timed "apt-get update" "apt-get -qq update"
if [ "$what" = tests ]; then
  timed "packages" "deploy/install_packages.sh --tests"
  timed "Python environments" "deploy/python_env.sh debian torch-2.11 launch wheel s3 boards"
  timed "build" "deploy/build.sh //..."
  timed "tests" "tests/run.sh"
else
  timed "packages" "deploy/install_packages.sh"
  timed "build" "deploy/build.sh //cli:strata"
  timed "training" "deploy/quickstart.sh"
fi
