#!/usr/bin/env bash
# Runs as a service beside Strata's: uses them and writes what it finds to /opt/out.
set -uo pipefail
units=(strata-coordinator strata-server strata-worker)
cd /opt/out
exec >"log" 2>&1

both_there() { [ "$(strata nodes 2>/dev/null | grep -c alive)" -eq 2 ]; }
await() {
  for ((i = 0; i < 600; i++)); do
    "$@" && return 0
    sleep 0.1
  done
  echo "never: $*"
  return 1
}

# As the operator does it: by the coordinator's socket, which only root may use besides it.
token() { strata keys token "$1" --out "/etc/strata/$1.token" 2>/dev/null; }
await token server
await token worker
await both_there
strata keys list | awk '$1 == "server" || $1 == "worker" { print $1, $NF }' >joined
for unit in "${units[@]}"; do
  pid=$(systemctl show --property MainPID --value "$unit")
  echo "$unit $(grep -E '^(NoNewPrivs|Seccomp|CapBnd):' "/proc/$pid/status" | tr -d '\t' | xargs)"
  echo "$unit files $(awk '/^Max open files/ { print $4 }' "/proc/$pid/limits")"
done >confined
stat -c '%U' "/proc/$(systemctl show --property MainPID --value strata-worker)" >worker-user

cat >/tmp/job.textproto <<'JOB'
name: "job"
model { zoo: "lenet5" }
data { synthetic { train_samples: 512 test_samples: 128 } batch_per_rank: 16 }
optimizer { sgd {} }
schedule { base_lr: 0.02 }
ranks: 2
max_steps: 10
epochs: 100
consistency { sync {} }
JOB
submit() { strata submit /tmp/job.textproto --set ranks="$(nproc)" --follow; }
submit
echo $? >first-job
ls /var/lib/strata/runs >runs

# One that is killed comes back, and the cluster with it.
systemctl kill --signal=KILL strata-server
restarted() { [ "$(systemctl show --property NRestarts --value strata-server)" -ge 1 ]; }
await restarted
await both_there
submit
echo $? >second-job

systemctl stop "${units[@]}"
for unit in "${units[@]}"; do
  echo "$unit $(systemctl show --property ActiveState,Result --value "$unit" | xargs)"
done >stopped
journalctl --no-pager --unit 'strata-*' >journal
systemctl --force --force poweroff
