#!/usr/bin/env bash
# Installs what building and running Strata needs (packages.txt) and this machine lacks; does
# nothing where nothing is missing. Starts and enables no service. Needs Debian 12 and, when
# something is missing, root or sudo.
#
# usage: deploy/install_packages.sh [--tests | --runtime | --bench | --python]
#   --tests     also what tests, own benchmarks and bundles need (packages-tests.txt)
#   --runtime   only what a host needs to run a binary built elsewhere (packages-runtime.txt)
#   --bench     only what benchmarks against others want besides (packages-bench.txt)
#   --python    only what tests of the Python package want besides (packages-python.txt)
set -euo pipefail
cd "$(dirname "$0")"

case "${1:-}" in
  '') lists=(packages.txt) ;;
  --tests) lists=(packages.txt packages-tests.txt) ;;
  --runtime) lists=(packages-runtime.txt) ;;
  --bench) lists=(packages-bench.txt) ;;
  --python) lists=(packages-python.txt) ;;
  *)
    echo "strata: error: unknown option $1 (--tests, --runtime, --bench or --python)" >&2
    exit 2
    ;;
esac

missing=()
while read -r package; do
  case "$package" in '' | '#'*) continue ;; esac
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done < <(cat "${lists[@]}")
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "strata: error: packages are missing (${missing[*]}); run as root or install sudo" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "Installing ${#missing[@]} Debian packages (a few minutes): ${missing[*]}"
log=$(mktemp)
# Tests start daemons of their own; that their packages are here is no reason to run a service.
policy=/usr/sbin/policy-rc.d
[ ! -e "$policy" ] || policy=
clean_up() {
  rm -f "$log"
  [ -z "$policy" ] || "${as_root[@]}" rm -f "$policy"
}
trap clean_up EXIT
if [ -n "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
fi
disable_services() {
  command -v systemctl >/dev/null || return 0
  local package unit
  for package in "${missing[@]}"; do
    case "$package" in
      munge | slurmctld | slurmd) unit=$package ;;
      openssh-server) unit=ssh ;;
      etcd-server) unit=etcd ;;
      prometheus) unit=prometheus ;;
      *) continue ;;
    esac
    "${as_root[@]}" systemctl --quiet disable "$unit" >"$log" 2>&1 || true
  done
}
# Prints the packages to be installed, with dependencies, and their size, in apt's words.
show_sizes() {
  "${as_root[@]}" env LC_ALL=C apt-get install --assume-no --no-install-recommends \
    "${missing[@]}" 2>/dev/null |
    sed -n 's/^[0-9]* upgraded, \([0-9]* newly installed\).*/  \1/p
      s/^Need to get \|^After this operation, /  &/p' || true
}
install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1
}
# A machine whose package lists are current needs no update; one whose lists are stale fails and
# does.
show_sizes
if ! install; then
  "${as_root[@]}" apt-get update >"$log" 2>&1 && show_sizes && install || {
    tail -n 20 "$log" >&2
    echo "strata: error: apt-get could not install the packages above" >&2
    exit 1
  }
fi
disable_services
