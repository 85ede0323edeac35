#!/usr/bin/env bash
# The reference of commands is made, with a section for every command of the program.
set -euo pipefail
python3 docs/generate/all.py "$TEST_TMPDIR" --only cli.md --strata cli/strata
page=$TEST_TMPDIR/cli.md
[ "$(head -n 1 "$page")" = "# Command line" ]
commands=$(cli/strata --help | sed -n '/^Commands:$/,/^$/s/^  \([a-z][a-z-]*\).*/\1/p')
[ "$(wc -w <<< "$commands")" -gt 10 ]
for command in $commands; do
  grep -qxF "## strata $command" "$page" || { echo "no section for $command" >&2; exit 1; }
done
