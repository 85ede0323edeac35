#!/bin/sh
# Man pages and completions, which the program writes itself: `strata man DIR` and `strata
# completion SHELL`. One that has not these commands gives none, which is said.
# usage: generated.sh PROGRAM ROOT
set -eu
program=$1 root=$2
share=$root/usr/share

if "$program" man --help > /dev/null 2>&1; then
  mkdir -p debian/man
  "$program" man debian/man
  find debian/man -name '*.[1-8]' -type f | sort > debian/strata.manpages
else
  echo "strata: this program writes no man pages (strata man): the package has none" >&2
fi

# completion SHELL FOLDER NAME
completion() {
  mkdir -p "$share/$2"
  "$program" completion "$1" > "$share/$2/$3"
}
if "$program" completion --help > /dev/null 2>&1; then
  completion bash bash-completion/completions strata
  completion zsh zsh/vendor-completions _strata
  completion fish fish/vendor_completions.d strata.fish
else
  echo "strata: this program writes no completions: the package has none" >&2
fi
