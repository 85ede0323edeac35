#!/usr/bin/env bash
# Runs a command in a root folder, in namespaces that were made for it: with /proc, /dev, and
# /run and /tmp in memory.
#
# usage: enter.sh [--user ID] [--out DIR] ROOT COMMAND...
#   --user ID    as this user and group, with a root that is read-only
#   --out DIR    what the command sees as /tmp/out
set -euo pipefail
user= out=
while [[ $1 == --* ]]; do
  case "$1" in
    --user) user=$2 ;;
    --out) out=$2 ;;
  esac
  shift 2
done
root=$1
shift
mount --make-rprivate /
mount --bind "$root" "$root"
mkdir -p "$root/proc" "$root/dev" "$root/run" "$root/tmp"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=755 run "$root/run"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
ip link set lo up
if [ -n "$out" ]; then
  mkdir "$root/tmp/out"
  mount --bind "$out" "$root/tmp/out"
fi
as_user=(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot)
if [ -n "$user" ]; then
  mount -o remount,bind,ro "$root"
  as_user=(env -i HOME=/tmp /usr/sbin/chroot --userspec "$user:$user" --groups "$user")
fi
exec "${as_user[@]}" "$root" "$@"
