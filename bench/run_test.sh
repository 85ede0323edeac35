#!/usr/bin/env bash
# The whole measuring at a tiny size: it must run and all values must be right; its figures are not
# judged.
set -euo pipefail
output=$(python3 bench/side_by_side.py --tiny --bin .)
echo "$output"
for row in "| Strata |" "| ps-lite's manner |" "| the same, pulls pipelined |"; do
  [ "$(grep -cF "$row" <<<"$output")" -ge 2 ] || { echo "no row $row"; exit 1; }
done
[ "$(grep -cF "| Strata, one thread adds |" <<<"$output")" -eq 2 ] || { echo "no node"; exit 1; }
if bench/netlab.sh -- true 2>/dev/null; then
  [ "$(grep -cF "| Strata, servers |" <<<"$output")" -eq 2 ] || { echo "no shaped hosts"; exit 1; }
fi

scratch=$(mktemp)
trap 'rm -f "$scratch"' EXIT
echo "# Before" >"$scratch"
for _ in 1 2; do
  python3 bench/side_by_side.py small --tiny --bin . --write "$scratch" >/dev/null
done
[ "$(grep -c "^## Small model" "$scratch")" -eq 1 ] || { echo "a table is not replaced"; exit 1; }
grep -q "^# Before" "$scratch" || { echo "what else is in the file is lost"; exit 1; }
