#!/usr/bin/env bash
# On the CPU, tiny: that both train and are compared. Where PyTorch is not installed, that this is
# said.
set -euo pipefail
status=0
output=$(python3 bench/resnet50_against_torch.py cli/strata --device cpu --batch 2 --size 32 \
  --steps 4 --pairs 1 --python /usr/bin/python3) || status=$?
echo "$output"
if [ "$status" -eq 77 ]; then
  [ "$output" = "/usr/bin/python3 has no PyTorch" ]
else
  [ "$status" -eq 0 ]
  grep -q '^ResNet-50, cpu, batch 2, 32 x 32: median ratio [0-9.]* ' <<<"$output"
fi
