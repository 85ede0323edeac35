#!/usr/bin/env bash
# Runs in new mount, PID, network, UTS, IPC and cgroup namespaces, as their process 1: makes a root
# that is this system with everything written to memory, and becomes the systemd of it.
# usage: boot.sh DIR BINARY INSTALL_SH PROBE_SH (absolute)
set -euo pipefail
dir=$1 binary=$2 install=$3 probe=$4
root=$dir/root

mount --make-rprivate /
mkdir -p "$dir/memory" "$root"
mount -t tmpfs memory "$dir/memory"
mkdir "$dir/memory/upper" "$dir/memory/work"
mount -t overlay root -o "lowerdir=/,upperdir=$dir/memory/upper,workdir=$dir/memory/work" "$root"
cd "$root"
mkdir -p opt/out opt/old
mount --bind "$dir/out" opt/out
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 run run
mount -t tmpfs tmp tmp
mount --rbind /dev dev
ip link set lo up

rm -rf etc/systemd/system/*.wants etc/strata etc/systemd/system/strata-*
"$install" --root . --binary "$binary" coordinator server worker
chroot . systemd-sysusers strata.conf
install -m 755 "$probe" opt/probe.sh
cat >etc/systemd/system/probe.service <<'UNIT'
[Service]
ExecStart=/opt/probe.sh
UNIT
cat >etc/systemd/system/test.target <<'UNIT'
[Unit]
Requires=strata-coordinator.service strata-server.service strata-worker.service probe.service
UNIT

# systemd makes user namespaces for units, which is not allowed in a chroot.
pivot_root . opt/old
cd /
umount -l /opt/old
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system \
  --unit=test.target --show-status=no
