#!/usr/bin/env bash
# Runs pytest for python_test.bzl, from the folder that Bazel starts tests in.
# usage: run_pytest.sh ENVIRONMENT FILE...
set -euo pipefail
environment=$1
shift
python=$(deploy/python_env.sh --print "$environment")/bin/python
[ -x "$python" ] || {
  echo "strata: error: $python: is not there; run deploy/python_env.sh $environment" >&2
  exit 1
}
export PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1
export STRATA_CLIENT_LIBRARY=$PWD/worker/client/c/libstrata_client.so.1
export STRATA_COMMAND=$PWD/cli/strata
export STRATA_MAKE_CHECKPOINTS=$PWD/cli/commands/make_checkpoints
export STRATA_WRITE_EVENTS=$PWD/common/tensorboard/write_events
export STRATA_FAKE_DEVICE=$PWD/kernels/cuda/libstrata_fake_device.so
# Scripts of `strata run` are started with the python3 that is first on PATH.
export PATH=${python%/*}:$PWD/cli:$PATH
exec "$python" -m pytest -q -p no:cacheprovider --rootdir python \
  --basetemp "$TEST_TMPDIR/pytest" -o junit_family=xunit1 --junitxml "$XML_OUTPUT_FILE" "$@"
