#!/usr/bin/env bash
# Installs the strata binary and the units of this host's daemons; enables and starts nothing.
#
# usage: deploy/systemd/install.sh [--root DIR] [--binary FILE] coordinator|server|worker...
#   --root DIR      install below DIR instead of / (for packages and images)
#   --binary FILE   default: bazel-bin/cli/strata of this clone
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

fail() {
  echo "strata: error: $*" >&2
  exit 2
}

root= binary=$here/../../bazel-bin/cli/strata roles=()
while [ $# -gt 0 ]; do
  case "$1" in
    --root | --binary)
      [ $# -ge 2 ] || fail "$1 needs a value"
      [ "$1" = --root ] && root=$2 || binary=$2
      shift 2
      ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    coordinator | server | worker) roles+=("$1"); shift ;;
    *) fail "unknown option or role $1 (see --help)" ;;
  esac
done
[ ${#roles[@]} -gt 0 ] || fail "name the daemons of this host: coordinator, server or worker"
[ -x "$binary" ] || fail "no program $binary (deploy/build.sh //cli:strata, or --binary FILE)"
[ -n "$root" ] || [ "$(id -u)" -eq 0 ] || fail "only root can install below /"

install -D -m 755 "$binary" "$root/usr/local/bin/strata"
"$binary" man "$root/usr/local/share/man/man1"
mkdir -p "$root/usr/local/share/bash-completion/completions"
"$binary" completion bash >"$root/usr/local/share/bash-completion/completions/strata"
install -D -m 644 "$here/../../docs/install.md" "$root/usr/local/share/doc/strata/install.md"
for role in "${roles[@]}"; do
  install -D -m 644 "$here/strata-$role.service" "$root/etc/systemd/system/strata-$role.service"
  if [ -e "$root/etc/strata/$role.env" ]; then
    echo "kept $root/etc/strata/$role.env"
  else
    install -D -m 644 "$here/$role.env" "$root/etc/strata/$role.env"
  fi
  # Where the operator puts what `strata keys token` prints.
  token=$root/etc/strata/$role.token
  [ "$role" = coordinator ] || [ -e "$token" ] || install -m 600 /dev/null "$token"
  if [ "$role" = worker ]; then
    install -D -m 644 "$here/strata.sysusers" "$root/usr/lib/sysusers.d/strata.conf"
    [ -n "$root" ] || systemd-sysusers strata.conf
  fi
done
[ -n "$root" ] || systemctl daemon-reload

units=("${roles[@]/#/strata-}")
cat <<TEXT
installed: ${units[*]}
  options: /etc/strata/*.env
  joining: /etc/strata/ROLE.token has what "strata keys token ROLE" prints on the coordinator's host
  start:   systemctl enable --now ${units[*]}
  look:    systemctl status ${units[*]}; journalctl -u ${units[0]}
TEXT
