#!/usr/bin/env bash
# The wheel in a bare venv: the program, the package, and a script's job, on a machine that has
# neither Bazel nor the libraries that Debian would give; and the README's script.
set -euo pipefail
here=$PWD
cd "$TEST_TMPDIR"

fail() { echo "$1" >&2; exit 1; }

# The same input makes the same bytes.
export SOURCE_DATE_EPOCH=1700000000
for round in 1 2; do
  "$here/deploy/wheel.sh" "wheels$round" --built "$here" > "made$round" &
done
wait -n || fail "no wheel is made"
wait -n || fail "no second wheel is made"
cat made1
wheel=$(echo wheels1/strata_train-*-py3-none-manylinux_2_*_x86_64.whl)
[ -f "$wheel" ] || fail "no wheel of that name: $(ls wheels1)"
cmp "$wheel" "wheels2/${wheel##*/}" || fail "a second wheel of the same input is another"
size_mb=$(du -m "$wheel" | cut -f1)
[ "$size_mb" -lt 100 ] || fail "the wheel has $size_mb MB"

/usr/bin/python3 -m venv venv
numpy=$("$here/deploy/python_env.sh" --print wheel)/wheels
venv/bin/python -m pip install --quiet --disable-pip-version-check --no-index \
  --find-links "$numpy" "$wheel"
site=$(venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# Every library is the wheel's, glibc's, or the compiler's, which manylinux promises.
for file in "$site"/strata/_lib/*.so* "$site"/strata/_bin/*; do
  ldd "$file" > needed
  ! grep "not found" needed || fail "$file: the libraries above are missing"
  awk '$2 == "=>" { print $1, $3 }' needed | grep -v " $site/" |
    grep -Ev '^(lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+|z)\.so|linux-vdso)' &&
    fail "$file: needs the libraries above of its host"
done
# Libraries that only the program needs would make each rank larger.
! ldd "$site/strata/_lib/libstrata_client.so.1" | grep -E 'dnnl|gomp' ||
  fail "the client library needs oneDNN"

# Beside PyTorch in one process, which has a Protobuf of its own; Debian's even of this version.
for name in debian torch-2.11; do
  STRATA_CLIENT_LIBRARY=$site/strata/_lib/libstrata_client.so.1 \
    "$("$here/deploy/python_env.sh" --print "$name")/bin/python" -m pytest -q -p no:cacheprovider \
    "$here/python/tests/test_library.py" > pytest.log || { cat pytest.log; fail "not with $name"; }
done

cat > train.py <<'END'
import os
import sys

import numpy as np
import strata

params = {"w": np.zeros(8, "f4")}
with strata.Session(params, optimizer=strata.SGD(lr=0.5)) as session:
    for step in range(3):
        session.step({"w": np.ones(8, "f4")}, loss=1.0)
weights = session.weights()["w"].tolist()
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "in", sys.prefix, weights[7])
END
cat > use.sh <<'END'
set -euo pipefail
version=$(venv/bin/strata --version)
echo "$version"
venv/bin/python -c 'import strata; print("imported", strata.__file__)'
venv/bin/strata run -n 2 train.py
END

# In a mount namespace of its own: empty files over the libraries that the wheel has and Debian has,
# too, but not over those of Python and of mount. The program of the source tree shows it.
cat > alone.sh <<'END'
set -euo pipefail
program=$1
ldd /usr/bin/python3 /usr/bin/mount > of_others
ldd "$program" | awk '$3 ~ /^\// { print $1 }' | while read -r name; do
  [[ ! $name =~ ^lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+)\.so ]] || continue
  path=$(readlink -f "/usr/lib/x86_64-linux-gnu/$name")
  if ! grep -qF "$name " of_others && [ -f "$path" ]; then
    mount --bind /dev/null "$path"
    echo "$name"
  fi
done > hidden
if "$program" --version > /dev/null 2>&1; then
  echo "nothing was hidden" >&2
  exit 1
fi
! bazel=$(command -v bazel) || mount --bind /dev/null "$(readlink -f "$bazel")"
bash use.sh
END

clean=(env -i PATH=/usr/bin:/bin HOME="$PWD")
if [ "$(id -u)" -eq 0 ] && unshare -m true 2> /dev/null; then
  "${clean[@]}" unshare -m bash alone.sh "$here/cli/strata" > out 2>&1 ||
    { cat out; fail "the wheel does not work alone"; }
  for library in grpc protobuf absl zmq dnnl; do
    grep -q "^lib$library" hidden || fail "lib$library was not hidden"
  done
else
  "${clean[@]}" bash use.sh > out 2>&1 || { cat out; fail "the wheel does not work"; }
fi
cat out
grep -q "^imported $site/strata/" out || fail "another package was imported"
grep -qx "rank 0 of 2 in $PWD/venv -1.5" out || fail "the script did not run in the venv"
grep -q '(train): finished' out || fail "the job did not finish"

# The wheel asks for no MLflow; its command says where it is to be had.
! venv/bin/strata-mlflow strata-runs 2> out || fail "strata-mlflow works without mlflow"
grep -qx 'strata: error: mlflow is missing: pip install mlflow-skinny' out ||
  { cat out; fail "strata-mlflow does not say what it needs"; }

# The README's script trains with the wheel, once there is PyTorch, as `pip install torch` gives it.
with_torch=$("$here/deploy/python_env.sh" --print torch-2.11)/bin/python
"$with_torch" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$site/torch.pth"
awk '/^```$/ { within = 0 } within { print } /^```python$/ { within = 1 }' "$here/README.md" \
  > readme.py
grep -q DistributedOptimizer readme.py || fail "README.md: no script for PyTorch"
"${clean[@]}" venv/bin/strata run -n 2 readme.py > out 2>&1 || { cat out; fail "readme.py fails"; }
cat out
reached=$(sed -n 's/^job 1 (readme): finished after .*, test accuracy \(0[.][0-9]*\)$/\1/p' out)
awk -v reached="$reached" 'BEGIN { exit !(reached > 0.9) }' || fail "readme.py learned too little"
