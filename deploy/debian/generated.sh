#!/bin/sh
# Man pages and bash's completion, which the program writes itself: `strata man DIR` and `strata
# completion bash`. Without them there is no package.
# usage: generated.sh PROGRAM ROOT
set -eu
program=$1 root=$2
share=$root/usr/share

mkdir -p debian/man
"$program" man debian/man
find debian/man -name '*.[1-8]' -type f | sort > debian/strata.manpages

mkdir -p "$share/bash-completion/completions"
"$program" completion bash > "$share/bash-completion/completions/strata"
