#!/usr/bin/env bash
# The units as install.sh installs them: what systemd thinks of them, that every option in them is
# one of the binary's, and that the same checks find faults.
set -uo pipefail
root=$TEST_TMPDIR/root
units=(strata-coordinator.service strata-server.service strata-worker.service)
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

analyze() { systemd-analyze --root="$root" "$@" 2>&1; }

command -v systemd-analyze >/dev/null || {
  fail "systemd-analyze is not installed: run deploy/install_packages.sh --tests (systemd)"
  exit 1
}

# The units refer to systemd's own units.
mkdir -p "$root/lib/systemd"
cp -a /lib/systemd/system "$root/lib/systemd/"
install=deploy/systemd/install.sh
out=$("$install" --root "$root" --binary cli/strata coordinator server worker) || fail "$out"
[[ $out == *"systemctl enable --now strata-coordinator strata-server strata-worker"* ]] ||
  fail "install.sh does not say how to start: $out"

words=$(analyze verify "${units[@]}") || fail "verify: $words"
[ -z "$words" ] || fail "verify has something to say: $words"
# On systemd's scale, times ten: 0 exposes nothing, 100 all.
for unit in "${units[@]}"; do
  words=$(analyze security --offline=yes --threshold=20 "$unit") ||
    fail "$unit is too exposed: $(tail -n 1 <<<"$words")"
done

# Options that are set or described, and variables that are used.
for role in coordinator server worker; do
  help=$(cli/strata "$role" --help)
  service=$root/etc/systemd/system/strata-$role.service
  env=$root/etc/strata/$role.env
  # ExecStartPre runs another command.
  for option in $(grep -vh '^ExecStartPre=' "$service" "$env" | grep -oE -- '--[a-z][a-z-]+'); do
    [ "$option" != --help ] || continue
    grep -qE -- "^  $option( |$)" <<<"$help" || fail "$role has no option $option"
  done
  for variable in $(grep -ohE '\$\{?STRATA_[A-Z]+' "$service" | tr -d '${'); do
    grep -qE "^#?$variable=" "$env" || fail "$env does not name $variable"
  done
  for option in $(grep -oE '^  --[a-z-]+' <<<"$help"); do
    grep -qhE -- "$option( |$)" "$service" "$env" || fail "$env does not name $option of $role"
  done
done

# A file of options that somebody has changed stays, and bad usage is told.
echo "STRATA_ARGS=--port 1" >"$root/etc/strata/coordinator.env"
"$install" --root "$root" --binary cli/strata coordinator >/dev/null
grep -qx "STRATA_ARGS=--port 1" "$root/etc/strata/coordinator.env" ||
  fail "install.sh has replaced a changed file"
for bad in "" "manager" "--binary /nowhere server" "--root"; do
  # shellcheck disable=SC2086
  words=$("$install" --root "$root" $bad 2>&1)
  [ $? -eq 2 ] && [[ $words == "strata: error: "* ]] || fail "install.sh $bad: $words"
done

# The checks can fail.
sed -i 's/^RestartSec=.*/RestartSec=soon/' "$root/etc/systemd/system/strata-server.service"
[ -n "$(analyze verify strata-server.service)" ] || fail "verify accepts RestartSec=soon"
sed -i '/^SystemCallFilter/d;/^Protect/d;/^CapabilityBoundingSet/d' \
  "$root/etc/systemd/system/strata-worker.service"
analyze security --offline=yes --threshold=20 strata-worker.service >/dev/null &&
  fail "an exposed worker passes"

[ "$failures" -eq 0 ]
