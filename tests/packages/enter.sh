#!/usr/bin/env bash
# Runs a command in a root folder, in namespaces that were made for it: with /proc, /dev and a /tmp in
# memory. usage: enter.sh [--read-only] ROOT COMMAND...
set -euo pipefail
read_only=
[ "$1" != --read-only ] || { read_only=1; shift; }
root=$1
shift
mount --make-rprivate /
mount --bind "$root" "$root"
mkdir -p "$root/proc" "$root/dev" "$root/tmp"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
ip link set lo up
[ -z "$read_only" ] || mount -o remount,bind,ro "$root"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot "$root" "$@"
