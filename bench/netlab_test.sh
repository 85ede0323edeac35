#!/usr/bin/env bash
# The network lab keeps its promises: links are no faster than configured, nothing is left behind.
set -euo pipefail
lab=bench/netlab.sh
failed=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch
expect() { # NAME CONDITION...
  local name=$1
  shift
  if "$@"; then echo "ok: $name"; else echo "FAILED: $name"; failed=1; fi
}
status_of() { local status=0; "$@" >"$scratch/out" 2>&1 || status=$?; echo "$status"; }
leftovers() { find "$scratch" -name 'strata-netlab-*' | wc -l; }
# Processes with a unique word in their command line.
running() { grep -lz "[${1:0:1}]${1:1}" /proc/[0-9]*/cmdline 2>/dev/null | wc -l; }

expect "bad usage is one line and status 2" test "$(status_of $lab --rate fast -- true)" -eq 2
expect "it names the option" grep -q -- "^netlab: --rate fast: " "$scratch/out"

mkdir "$scratch/bin"
printf '#!/bin/sh\nexit 1\n' >"$scratch/bin/unshare"
chmod +x "$scratch/bin/unshare"
expect "who may not make networks is told in one line" \
  test "$(PATH=$scratch/bin:$PATH status_of $lab -- true)$(grep -c ^skipped: "$scratch/out")" = 771
if [ "$(status_of $lab -- true)" -eq 77 ]; then
  cat "$scratch/out"
  exit $failed
fi

expect "congestion control that the kernel has not is bad usage" \
  test "$(status_of $lab --congestion pigeon -- true)" -eq 2
expect "which names it" grep -q -- "^netlab: --congestion pigeon: " "$scratch/out"
expect "a queue that is no time is bad usage" test "$(status_of $lab --queue 0 -- true)" -eq 2
$lab --hosts 1 --queue 70 -- tc qdisc show dev eth0 >"$scratch/out"
expect "queues are as long as asked for" grep -q " lat 70ms" "$scratch/out"
expect "the status is that of the command that failed" \
  test "$(status_of $lab --hosts 3 -- bash -c 'exit $(( {number} == 1 ? 7 : 0 ))')" -eq 7
$lab --hosts 3 --prefix lab -- echo '{host} {address}' >"$scratch/out"
expect "every host runs the command under a name and an address of its own" \
  test "$(sort "$scratch/out" | tr '\n' ' ')" = "lab0 10.78.0.1 lab1 10.78.0.2 lab2 10.78.0.3 "
$lab --hosts 2 --once -- bash -c 'while read -r name at run; do $run echo "$name $at"; done \
  <{hosts}' >"$scratch/out"
expect "one command can run others on the hosts" \
  test "$(tr '\n' ' ' <"$scratch/out")" = "h0 10.78.0.1 h1 10.78.0.2 "

# 4 MiB cannot take less than 32 Mbit / rate, but for what a bucket holds.
for way in up down; do
  $lab --hosts 2 --rate 50mbit -- python3 bench/netlab_stream.py '{number}' 10.78.0.1 $way 4194304 \
    >"$scratch/out"
  seconds=$(cat "$scratch/out")
  echo "4 MiB at 50 Mbit/s, $way: $seconds s; not less than 0.64"
  expect "links are shaped ($way)" python3 -c "exit(not $seconds > 0.6)"
done
expect "the folder of a lab that has ended is gone" test "$(leftovers)" -eq 0
word=600.$$  # what its processes are known by: how long they sleep
for signal in INT TERM HUP KILL; do
  set -m  # else the shell starts it with SIGINT ignored
  $lab --hosts 2 -- bash -c "sleep $word; true" >/dev/null 2>&1 &
  set +m
  started=$!
  until [ "$(running $word)" -ge 5 ]; do sleep 0.1; done  # the lab, and two per host
  kill -$signal $started
  wait $started 2>/dev/null || true
  for ((i = 0; i < 300; i++)); do
    [ "$(running $word) $(leftovers)" != "0 0" ] || break
    sleep 0.1
  done
  expect "nothing runs on after SIG$signal" test "$(running $word)" -eq 0
  expect "nor is its folder left" test "$(leftovers)" -eq 0
done

# The sweeper of a lab comes late: by then the kernel has given its networks' numbers to another
# lab.
has_hosts() { # WORD NUMBER; waits until so many sleep for WORD seconds
  for ((i = 0; i < 300; i++)); do
    [ "$(pgrep -c -x -f "sleep $1")" -ne "$2" ] || return 0
    sleep 0.1
  done
}
$lab --hosts 2 -- sleep 700.$$ >/dev/null 2>&1 &
first=$!
has_hosts 700.$$ 2
sweeper=$(pgrep -P $first -f -- "--inside")
kill -STOP "$sweeper"
kill -KILL $first
wait $first 2>/dev/null || true
has_hosts 700.$$ 0
$lab --hosts 2 -- sleep 800.$$ >/dev/null 2>&1 &
second=$!
has_hosts 800.$$ 2
kill -CONT "$sweeper"
for ((i = 0; i < 300; i++)); do
  [ -e "/proc/$sweeper" ] || break
  sleep 0.1
done
expect "a lab that is cleaned up late takes nothing from the next one" \
  test "$(pgrep -c -x -f "sleep 800.$$")" -eq 2
kill -TERM $second
wait $second 2>/dev/null || true
exit $failed
