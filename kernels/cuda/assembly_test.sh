#!/usr/bin/env bash
exec python3 kernels/cuda/assembly.py "$@"
