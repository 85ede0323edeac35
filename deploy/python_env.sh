#!/usr/bin/env bash
# Makes a Python environment that tests of the Python package run in, once; prints nothing where it
# is there already. ~/.cache/strata-python/NAME/bin/python then has numpy, torch, torchvision, pytest
# and mypy.
#
# usage: deploy/python_env.sh NAME...
#   debian       Debian 12's own PyTorch, 1.13
#   torch-2.11   PyTorch 2.11 from PyPI; with CUDA's libraries of this machine where it has them
set -euo pipefail
deploy=$(cd "$(dirname "$0")" && pwd)
home=${STRATA_PYTHON_HOME:-$HOME/.cache/strata-python}
# Debian's, whatever else is first on PATH: its packages work with no other.
python=/usr/bin/python3
cuda=/usr/local/cuda/lib64

fail() { echo "strata: error: $*" >&2; exit 1; }

# The wheel of torch 2.11 asks for 2 GB of CUDA's libraries. A machine with CUDA 13 has most of them.
torch=torch==2.11.0
torchvision=torchvision==0.26.0
torch_without_cuda=("$torch" "$torchvision" nvidia-cufile nvidia-cusparselt-cu13
  nvidia-nvshmem-cu13==3.4.5 filelock fsspec jinja2 MarkupSafe mpmath networkx numpy==2.4.6 pillow
  setuptools sympy typing_extensions)
tools=(mypy==2.4.1 pytest==9.2.0)

has_cuda() {
  local library
  for library in libcudart.so.13 libcublas.so.13 libcudnn.so.9 libnccl.so.2 libcupti.so.13; do
    [ -e "$cuda/$library" ] || return 1
  done
}

# install OPTIONS: pip into the environment $made; the log is shown where it fails.
install() {
  "$made/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
    --retries 2 "$@" >> "$log" 2>&1 || {
    tail -n 5 "$log" >&2
    fail "$name: pip could not install $*"
  }
}

# CUDA's libraries go where torch's own paths of search find them, so that no variable is needed.
link_cuda() {
  local site folder library
  site=$("$made/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  folder=$site/nvidia/cu13/lib
  mkdir -p "$folder"
  for library in "$cuda"/lib*.so.[0-9]* "$cuda"/libnvrtc-builtins.so*; do
    [ -e "$folder/${library##*/}" ] || ln -s "$library" "$folder/"
  done
}

make_debian() {
  "$deploy/install_packages.sh" --python
  "$python" -m venv --system-site-packages --without-pip "$made"
}

make_torch() {
  "$python" -m venv "$made" 2>> "$log" || fail "$name: $python has no venv (package python3-venv)"
  if has_cuda; then
    install --no-deps "${torch_without_cuda[@]}"
    install "${tools[@]}"
    link_cuda
  else
    install "$torch" "$torchvision" numpy==2.4.6 "${tools[@]}"
  fi
}

# What an environment is made of. One that was made of something else, or not to its end, is made
# anew.
recipe() {
  case "$1" in
    debian) cat "$deploy/packages-python.txt" ;;
    *) printf '%s\n' "${torch_without_cuda[@]}" "${tools[@]}" ;;
  esac
}

make() {
  local name=$1 made=$home/$1 kind log started=$SECONDS
  case "$name" in
    debian) kind=make_debian ;;
    torch-2.11) kind=make_torch ;;
    *) echo "strata: error: $name: no environment of that name (debian, torch-2.11)" >&2; exit 2 ;;
  esac
  [ "$(cat "$made/recipe" 2>/dev/null)" != "$(recipe "$1")" ] || return 0
  echo "Making the Python environment $name in $made (a few minutes)"
  rm -rf "$made"
  mkdir -p "$home"
  log=$home/$name.log
  : > "$log"
  "$kind"
  "$made/bin/python" -c '
import mypy, numpy, pytest, torch, torchvision
torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()' 2>> "$log" || {
    tail -n 5 "$log" >&2
    fail "$name: PyTorch does not run"
  }
  recipe "$name" > "$made/recipe"
  echo "Made $name in $((SECONDS - started)) s, $(du -sm "$made" | cut -f1) MB"
}

[ $# -gt 0 ] || { echo "usage: deploy/python_env.sh NAME..." >&2; exit 2; }
mkdir -p "$home"
exec 9> "$home/lock"
flock 9
for name in "$@"; do make "$name"; done
