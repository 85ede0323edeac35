#!/usr/bin/env bash
# Makes a Python environment whose PyTorch has a Gloo that encrypts (2.0.1; that of 2.11 does not,
# see README.md) where bench/contenders.py finds it. For benchmarks only: 4 GB on disk, from PyPI.
#
# usage: bench/peers/torch_with_tls.sh     prints the interpreter
set -euo pipefail
user_home=$(getent passwd "$(id -u)" | cut -d: -f6)
home=${STRATA_PYTHON_HOME:-$user_home/.cache/strata-python}/torch-2.0
if [ ! -e "$home/complete" ]; then
  rm -rf "$home"
  /usr/bin/python3 -m venv "$home"
  # Without its dependencies: of CUDA it wants libraries to load, and no compiler.
  "$home/bin/pip" install --quiet --no-cache-dir --no-deps torch==2.0.1 filelock typing_extensions \
    sympy networkx jinja2 MarkupSafe mpmath nvidia-cublas-cu11==11.10.3.66 \
    nvidia-cuda-cupti-cu11==11.7.101 nvidia-cuda-nvrtc-cu11==11.7.99 \
    nvidia-cuda-runtime-cu11==11.7.99 nvidia-cudnn-cu11==8.5.0.96 nvidia-cufft-cu11==10.9.0.58 \
    nvidia-curand-cu11==10.2.10.91 nvidia-cusolver-cu11==11.4.0.1 nvidia-cusparse-cu11==11.7.4.91 \
    nvidia-nccl-cu11==2.14.3 nvidia-nvtx-cu11==11.7.91
  "$home/bin/python" -W ignore -c 'import torch.distributed'
  touch "$home/complete"
fi
echo "$home/bin/python"
