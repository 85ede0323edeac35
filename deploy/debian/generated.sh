#!/bin/sh
# Man pages and completions, which the program writes itself: `strata man DIR` and `strata
# completion SHELL`. Without them there is no package.
# usage: generated.sh PROGRAM ROOT
set -eu
program=$1 root=$2
share=$root/usr/share

mkdir -p debian/man
"$program" man debian/man
find debian/man -name '*.[1-8]' -type f | sort > debian/strata.manpages

# completion SHELL FOLDER NAME
completion() {
  mkdir -p "$share/$2"
  "$program" completion "$1" > "$share/$2/$3"
}
completion bash bash-completion/completions strata
completion zsh zsh/vendor-completions _strata
completion fish fish/vendor_completions.d strata.fish
