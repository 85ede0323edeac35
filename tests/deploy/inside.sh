#!/bin/bash
# Runs as root inside of a fresh root: installs the packages, uses them, and takes them away again.
set -uo pipefail
cd /opt/test || exit 1
failures=0
check() { # WHAT CONDITION...
  local what=$1
  shift
  if "$@"; then echo "ok: $what"; else echo "FAILED: $what"; failures=$((failures + 1)); fi
}
# Lists the files on the disk except dpkg's database and the accounts with their lock.
snapshot() {
  find / -xdev \( -path /opt/test -o -path /tmp -o -path /var/lib/dpkg -o -path /var/log \
    -o -path /var/cache -o -path /run -o -path /proc -o -path /dev \) -prune \
    -o -printf '%p %y %m %u\n' |
    grep -vE '^/etc/((passwd|group|g?shadow)-?|\.pwd\.lock) ' | sort
}
dpkg_quiet() { dpkg "$@" < /dev/null > /tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; return 1; }; }

snapshot > /tmp/before
check "a root without strata" [ ! -e /usr/bin/strata ]
check "the packages are installed" dpkg_quiet -i ./*.deb
ours=(strata strata-cuda libstrata-client1 libstrata-dev)
words=$(dpkg --audit "${ours[@]}"; dpkg --verify "${ours[@]}")
echo "$words"
check "and whole" [ -z "$words" ]
check "there is a completion" [ -s /usr/share/bash-completion/completions/strata ]
# complete_words WORD...: what bash offers for the last of them, by the script that the package has.
complete_words() {
  bash -uc '. /usr/share/bash-completion/completions/strata
    complete -p strata > /dev/null || exit 1
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _strata strata "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    echo "${COMPREPLY[*]}"' bash "$@"
}
check "bash completes a command" [ "$(complete_words strata subm)" = submit ]
check "and its options" [ "$(complete_words strata drain s1 --dead)" = --deadline ]
commands=$(strata --help | sed -n '/^Commands:/,$s/^  \([a-z][a-z-]*\)  .*/\1/p')
check "the program has commands" [ "$(wc -w <<< "$commands")" -gt 20 ]
for page in strata $(sed 's/^/strata-/' <<< "$commands"); do
  zcat "/usr/share/man/man1/$page.1.gz" 2> /dev/null | grep -q "^\.TH " || echo "$page"
done > /tmp/without
cat /tmp/without
check "each command has a manual page" [ ! -s /tmp/without ]
check "the worker's user is there" [ "$(id -un strata)" = strata ]
check "nobody else reads tokens" \
  [ "$(stat -c '%a %U %s' /etc/strata/worker.token)" = "600 root 0" ]
check "no service is enabled" \
  [ -z "$(find /etc/systemd -name 'strata-*' | head -n 1)" ]
check "systemd accepts the units" [ -z "$(systemd-analyze verify strata-worker.service \
  strata-server.service strata-coordinator.service 2>&1 | grep strata)" ]

as_user() { setpriv --reuid=strata --regid=strata --clear-groups env HOME=/tmp/home "$@"; }
install -d -o strata -g strata /tmp/home
as_user strata local --nodes 2 --job job/sync.textproto --runs /tmp/home/runs \
  --set run_dir=run > /tmp/local 2>&1
check "a job trains as another user" [ $? -eq 0 ]
tail -n 3 /tmp/local
echo "weights $(sha256sum < /tmp/home/runs/run/model.safetensors)"
as_user strata devices --device-plugin /usr/lib/strata/libstrata_cuda.so > /tmp/devices 2>&1
check "the plugin is loaded" grep -qF "fake device" /tmp/devices
as_user strata devices > /tmp/devices 2>&1
check "and found beside the program" grep -qF "fake device" /tmp/devices
as_user strata local --nodes 2 --job job/linear.textproto --runs /tmp/home/own \
  --set program.path=/opt/test/linear > /tmp/own 2>&1
check "a program of one's own trains with the library" [ $? -eq 0 ]
tail -n 3 /tmp/own

# Upgrades: over itself, and to a version whose file of options is another one.
echo "STRATA_ARGS=--slots 3" > /etc/strata/worker.env
echo secret > /etc/strata/worker.token
check "it is upgraded over itself" dpkg_quiet -i ./strata_*.deb
check "an edited file of options stays" \
  [ "$(cat /etc/strata/worker.env)" = "STRATA_ARGS=--slots 3" ]
dpkg-deb -R ./strata_*.deb /tmp/newer
sed -i 's/^Version: .*/&+1/' /tmp/newer/DEBIAN/control
echo "# new" | tee -a /tmp/newer/etc/strata/worker.env >> /tmp/newer/etc/strata/server.env
dpkg-deb -z0 -b /tmp/newer /tmp/newer.deb > /dev/null
# Packages that depend on exactly this version are removed first, as apt would do.
check "the plugin's package is removed" dpkg_quiet -r strata-cuda
check "it is upgraded to a newer version" dpkg_quiet --force-confold -i /tmp/newer.deb
check "an edited file stays although the package has a new one" \
  [ "$(cat /etc/strata/worker.env)" = "STRATA_ARGS=--slots 3" ]
check "which lies beside it" [ "$(tail -n 1 /etc/strata/worker.env.dpkg-dist)" = "# new" ]
check "one that was not edited is the new one" [ "$(tail -n 1 /etc/strata/server.env)" = "# new" ]
check "a token stays" [ "$(cat /etc/strata/worker.token)" = secret ]

mkdir -p /var/lib/strata/runs /var/lib/private/strata-server /var/lib/private/strata-coordinator
ln -s private/strata-coordinator /var/lib/strata-coordinator
check "they are removed" dpkg_quiet -r strata libstrata-dev libstrata-client1
check "the program is gone" [ ! -e /usr/lib/strata ]
check "what the operator has made stays" \
  [ -s /etc/strata/worker.token -a -d /var/lib/strata/runs -a -e /var/lib/strata-coordinator ]
check "they are purged" dpkg_quiet -P "${ours[@]}"
[ ! -d /var/lib/private ] || rmdir /var/lib/private # systemd's own
snapshot > /tmp/after
diff /tmp/before /tmp/after
check "nothing is left of them" cmp /tmp/before /tmp/after
check "but the account" grep -q '^strata:' /etc/passwd
exit "$failures"
