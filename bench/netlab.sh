#!/usr/bin/env bash
# Hosts on shaped links, on one machine: network namespaces that a bridge joins over veth pairs,
# each link shaped both ways with tc's token bucket.
#
# usage: bench/netlab.sh [OPTIONS] [--] [COMMAND...]
#   --hosts N           how many hosts; default 2, at most 200
#   --rate RATE         of each link, each way, as Nmbit or Ngbit; default 1gbit
#   --queue MS          what waits at a link for longer is dropped; default 25
#   --prefix NAME       hosts are called NAME0, NAME1, ...; default h
#   --congestion NAME   TCP congestion control of all hosts; default: this machine's
#   --once              COMMAND runs once, at the switch, and reaches all hosts; without it COMMAND
#                       runs on every host at the same time
# In COMMAND {host}, {number} and {address} are those of the host, {addresses} all of them with
# commas between, and {hosts} the path of a file with a line "NAME ADDRESS COMMAND..." per host,
# where what is put after COMMAND runs on that host. Without COMMAND it prints how to enter the
# hosts and waits for Ctrl-C.
#
# The exit status is that of COMMAND (the first that is not 0), 2 for bad usage, and 77, after one
# line that begins "skipped:", where this user may not make network namespaces.
#
# Nothing has a name outside: switch, links and hosts are namespaces that live as long as processes
# of this script, and those are killed when it ends, whatever ends it.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

readonly kSkipped=77
bad_usage() { echo "netlab: $1 (see the head of $0)" >&2; exit 2; }

inside=0 hosts=2 rate=1gbit queue=25 prefix=h congestion='' once=0
given=("$@")
while [ $# -gt 0 ]; do
  case "$1" in
    --hosts | --rate | --queue | --prefix | --congestion)
      [ $# -ge 2 ] || bad_usage "$1 needs a value"
      printf -v "${1#--}" %s "$2"
      shift ;;
    --once) once=1 ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --inside) inside=1 ;;
    --) shift; break ;;
    -*) bad_usage "unknown option $1" ;;
    *) break ;;
  esac
  shift
done
[[ $hosts =~ ^[1-9][0-9]*$ && $hosts -le 200 ]] || bad_usage "--hosts $hosts: not from 1 to 200"
[[ $rate =~ ^([1-9][0-9]{0,5})([mg])bit$ ]] || bad_usage "--rate $rate: not like 100mbit or 1gbit"
rate_mbit=$((BASH_REMATCH[1] * $([ "${BASH_REMATCH[2]}" = g ] && echo 1000 || echo 1)))
[[ $queue =~ ^[1-9][0-9]{0,3}$ ]] || bad_usage "--queue $queue: not from 1 to 9999"
[[ $prefix =~ ^[a-z][a-z0-9]{0,7}$ ]] || bad_usage "--prefix $prefix: not 1 to 8 letters and digits"

if [ "$inside" -eq 0 ]; then
  if unshare --net true 2>/dev/null; then
    exec unshare --net -- "$0" --inside "${given[@]}"
  elif unshare --user --map-root-user --net true 2>/dev/null; then
    exec unshare --user --map-root-user --net -- "$0" --inside "${given[@]}"
  fi
  echo "skipped: network namespaces need root, or a kernel that lets users make them" >&2
  exit $kSkipped
fi

scratch=$(mktemp -d "${TMPDIR:-/tmp}/strata-netlab-$$-XXXXXX")
readlink /proc/self/ns/net >"$scratch/networks"
keepers=()   # by host: the process that holds its namespace
children=()  # what was started besides

# Kills what is in the lab's networks, which nobody else can be in, once this script has ended or
# wants it: when the other end of standard input is closed. It reads there which processes hold
# networks, and holds these networks open itself: the kernel gives the number of one that is gone to
# the next one that somebody makes, whose processes would be killed.
sweep() {
  trap '' INT TERM HUP
  exec 2>/dev/null
  local network pid held found=1
  while read -r pid; do
    exec {held}<"/proc/$pid/ns/net" && readlink "/proc/$BASHPID/fd/$held" >>"$scratch/networks"
  done
  while [ $found -eq 1 ]; do  # what forks may get away once
    found=0
    for pid in /proc/[0-9]*; do
      network=$(readlink "$pid/ns/net") || continue
      case ${pid#/proc/} in $$ | "$BASHPID") continue ;; esac
      grep -qxF "$network" "$scratch/networks" || continue
      found=1
      kill -KILL "${pid#/proc/}" || true
    done
  done
  rm -rf "$scratch"
}
exec {sweeping}> >(sweep)
sweeper=$!
clean_up() {
  trap '' INT TERM HUP
  exec 2>/dev/null {sweeping}>&-  # without stderr: the shell tells of what is killed
  wait "$sweeper" || true
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# Ends with this script, even if that is killed.
attached() { exec setpriv --pdeathsig KILL -- "$@" {sweeping}>&-; }

# A burst is 1 ms of the rate, and no less than what TCP hands down in one piece.
shape() {
  local burst=$((rate_mbit * 125))
  [ $burst -ge 131072 ] || burst=131072
  "$@" tc qdisc add dev "$device" root tbf rate "$rate" burst "$burst" latency "${queue}ms"
}

allowed() { cat /proc/sys/net/ipv4/tcp_allowed_congestion_control 2>/dev/null || echo others; }
address_of() { echo "10.78.0.$(($1 + 1))"; }
enter() { echo "nsenter --target ${keepers[$1]} --net --"; }

add_host() {
  local number=$1 link=to-$prefix$1 own
  own=$(readlink /proc/self/ns/net)
  attached unshare --net sleep infinity &
  local keeper=$!
  keepers+=("$keeper")
  until [ "$(readlink "/proc/$keeper/ns/net" 2>/dev/null || echo "$own")" != "$own" ]; do
    kill -0 "$keeper" 2>/dev/null || { echo "netlab: a host could not be made" >&2; exit 1; }
  done
  echo "$keeper" >&"$sweeping"
  until grep -qxF "$(readlink "/proc/$keeper/ns/net")" "$scratch/networks"; do
    kill -0 "$keeper" "$sweeper" 2>/dev/null || { echo "netlab: host $number is gone" >&2; exit 1; }
  done
  ip link add "$link" type veth peer name eth0 netns "$keeper"
  ip link set "$link" master switch0 up
  local run
  read -ra run <<<"$(enter "$number")"
  "${run[@]}" ip address add "$(address_of "$number")/24" dev eth0
  "${run[@]}" ip link set eth0 up
  "${run[@]}" ip link set lo up
  if [ -n "$congestion" ] && ! "${run[@]}" sysctl -qw \
    "net.ipv4.tcp_congestion_control=$congestion" 2>/dev/null; then
    bad_usage "--congestion $congestion: this kernel lets a namespace have $(allowed)"
  fi
  device=$link shape
  device=eth0 shape "${run[@]}"
}

ip link set lo up
ip link add switch0 type bridge
ip address add 10.78.0.254/24 dev switch0
ip link set switch0 up
for ((i = 0; i < hosts; i++)); do add_host $i; done

addresses=()
for ((i = 0; i < hosts; i++)); do
  addresses+=("$(address_of $i)")
  echo "$prefix$i $(address_of $i) $(enter $i)" >>"$scratch/hosts"
done
all=$(IFS=,; echo "${addresses[*]}")

# Runs COMMAND at host $1, or at the switch where that is empty; what is after it is COMMAND.
start() {
  local number=$1 word words=() run=()
  shift
  for word in "$@"; do
    word=${word//\{hosts\}/$scratch/hosts}
    word=${word//\{addresses\}/$all}
    if [ -n "$number" ]; then
      word=${word//\{host\}/$prefix$number}
      word=${word//\{number\}/$number}
      word=${word//\{address\}/$(address_of "$number")}
    fi
    words+=("$word")
  done
  [ -z "$number" ] || read -ra run <<<"$(enter "$number")"
  attached "${run[@]}" "${words[@]}" &
  children+=($!)
}

if [ $# -eq 0 ]; then
  echo "netlab: $hosts hosts, $rate each way; to run a command on one of them, put before it:"
  cat "$scratch/hosts"
  attached sleep infinity &
  wait $!
elif [ "$once" -eq 1 ]; then
  start '' "$@"
else
  for ((i = 0; i < hosts; i++)); do start $i "$@"; done
fi
status=0
for child in "${children[@]}"; do
  wait "$child" || { ended=$?; [ "$status" -ne 0 ] || status=$ended; }
done
exit "$status"
