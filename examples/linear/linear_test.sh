#!/usr/bin/env bash
# The program by itself (exchange NONE) finds the weights; without a launch file it says so.
set -euo pipefail
program=$1
launch=$TEST_TMPDIR/launch
cat > "$launch" <<'EOF'
record { job { name: "linear" ranks: 1 epochs: 1 exchange: NONE
  optimizer { sgd {} } schedule { base_lr: 0.1 constant {} } } }
local_ranks: 1
EOF
"$program" "$launch" | tee "$TEST_TMPDIR/out"
grep -qx 'w\[0\] = -3.000' "$TEST_TMPDIR/out"
grep -qx 'w\[7\] = 4.000' "$TEST_TMPDIR/out"
grep -qx 'b = 5.000' "$TEST_TMPDIR/out"
if "$program" 2> "$TEST_TMPDIR/err"; then
  echo "ran without a launch file" >&2
  exit 1
fi
grep -q '^linear: ' "$TEST_TMPDIR/err"
