#!/usr/bin/env bash
# The whole measuring at a tiny size: it must run and all values must be right; its figures are not
# judged.
set -euo pipefail
scratch=$(mktemp)
trap 'rm -f "$scratch"' EXIT
echo "# Before" >"$scratch"
output=$(python3 bench/side_by_side.py --tiny --bin . --write "$scratch")
echo "$output"
for row in "| Strata |" "| ps-lite's manner |" "| the same, pulls pipelined |"; do
  [ "$(grep -cF "$row" <<<"$output")" -ge 2 ] || { echo "no row $row"; exit 1; }
done
[ "$(grep -cF "| Strata, one thread adds |" <<<"$output")" -eq 2 ] || { echo "no node"; exit 1; }
for row in "| Strata, ENCRYPT |" "| Strata, SIGN |" "| Strata, PLAIN |"; do
  [ "$(grep -cF "$row" <<<"$output")" -ge 2 ] || { echo "no row $row"; exit 1; }
done
for name in "ps-lite's manner, CURVE" "PyTorch's Gloo" "PyTorch's Gloo, TLS"; do
  grep -qF -e "| $name |" -e "Not measured: $name (" <<<"$output" || { echo "no $name"; exit 1; }
done
for goal in 1.8 1.35 1.02; do
  grep -q "at most $goal: [0-9.]* (.*), m" <<<"$output" || { echo "no goal of $goal"; exit 1; }
done
if bench/netlab.sh -- true 2>/dev/null; then
  [ "$(grep -cF "| Strata, servers |" <<<"$output")" -eq 2 ] || { echo "no shaped hosts"; exit 1; }
  grep -q "at most 1.01: [0-9.]* (.*), m" <<<"$output" || { echo "no goal of 1.01"; exit 1; }
fi

tables=$(grep -c "^## " "$scratch")
python3 bench/side_by_side.py small --tiny --bin . --write "$scratch" >/dev/null
[ "$(grep -c "^## Small model, shared" "$scratch")" -eq 1 ] &&
  [ "$(grep -c "^## " "$scratch")" -eq "$tables" ] || { echo "a table is not replaced"; exit 1; }
grep -q "^# Before" "$scratch" || { echo "what else is in the file is lost"; exit 1; }

# Beside another build (here itself) stand only Strata's own, and a table of its own.
python3 bench/side_by_side.py small --tiny --bin . --before . --write "$scratch" >/dev/null
beside=$(sed -n '/bench\/run.sh small --before DIR -->/,/<!-- end/p' "$scratch")
[ "$(grep -c "^| Strata" <<<"$beside")" -eq 2 ] && grep -qF "| Strata, before |" <<<"$beside" ||
  { echo "not Strata beside itself: $beside"; exit 1; }
grep -q "Strata / Strata, before, at most 1.03: [0-9.]* (.*), m" <<<"$beside" ||
  { echo "no goal of 1.03"; exit 1; }
! grep -q "ps-lite" <<<"$beside" || { echo "peers, which nobody asked for"; exit 1; }
[ "$(grep -c "^## Small model, shared" "$scratch")" -eq 2 ] ||
  { echo "no table of its own"; exit 1; }
