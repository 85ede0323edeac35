#!/usr/bin/env bash
# The services under a real systemd: they run a job with all their restrictions on, come back when
# killed, and stop cleanly.
set -uo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# Not everybody may do what this test must.
can_make() {
  [ "$(id -u)" -eq 0 ] && unshare --fork --mount --pid --net --uts --ipc --cgroup true &&
    mkdir "$cgroup"
}
# Where systemd may make its own cgroups.
mounted=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
cgroup=$mounted$(sed -n 's/^0:://p' /proc/self/cgroup)/strata-systemd-$$
cgroup=${cgroup//\/\//\/}
clean_up() {
  for ((i = 0; i < 100; i++)); do
    find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null
    [ -d "$cgroup" ] || break
    sleep 0.1
  done
  [ ! -d "$cgroup" ] || fail "$cgroup is left"
  rm -rf "$dir"
}
can_make || {
  reason="needs root, new namespaces and a cgroup of its own"
  echo "SKIPPED: $reason"
  # So that it counts as skipped, not as passed.
  cat >"${XML_OUTPUT_FILE:-/dev/null}" <<END
<testsuites><testsuite name="boot_test"><testcase classname="systemd" name="boot_test">
<skipped message="$reason"/></testcase></testsuite></testsuites>
END
  exit 0
}
dir=$(mktemp -d /tmp/strata-systemd-XXXXXX)
mkdir "$dir/out"
trap clean_up EXIT

(
  echo "$BASHPID" >"$cgroup/cgroup.procs"
  exec timeout --signal=KILL 150 unshare --kill-child --fork --mount --pid --net --uts --ipc \
    --cgroup bash "$PWD/tests/deploy/boot.sh" "$dir" "$(realpath cli/strata)" \
    "$(realpath deploy/systemd/install.sh)" "$(realpath tests/deploy/probe.sh)"
) >"$dir/boot.log" 2>&1

expect() { # FILE TEXT
  local found
  found=$(cat "$dir/out/$1" 2>&1)
  [ "$found" = "$2" ] || fail "$1: expected \"$2\", found \"$found\""
}

# The unit's limit, as far as this container lets root raise its own.
files=$( (ulimit -n 65536 2>/dev/null; ulimit -n) )
confined=
for unit in strata-coordinator strata-server strata-worker; do
  confined+="$unit CapBnd:0000000000000000 NoNewPrivs:1 Seccomp:2"$'\n'"$unit files $files"$'\n'
done
expect confined "${confined%$'\n'}"
expect worker-user strata
expect joined "server good
worker good"
expect first-job 0
expect runs job-1
expect second-job 0
expect stopped "strata-coordinator success inactive
strata-server success inactive
strata-worker success inactive"
[ "$failures" -eq 0 ] || cat "$dir/boot.log" "$dir/out/log" "$dir/out/journal"
[ "$failures" -eq 0 ]
