#!/usr/bin/env bash
# From a fresh clone to a trained model: installs packages, builds Strata, starts a cluster on this
# machine (1 coordinator, 2 servers, 2 worker nodes x 2 ranks) and trains LeNet-5 on Fashion-MNIST.
# Run again, it installs and builds nothing and trains once more; a second clone takes what the
# first has built (~/.cache/strata-bazel).
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: deploy/quickstart.sh [--mode sync|lazy|async] [-- OPTIONS OF strata local]

  --mode MODE   how consistent the ranks stay (default: sync)

examples:
  deploy/quickstart.sh
  deploy/quickstart.sh --mode async
  deploy/quickstart.sh -- --set epochs=2
TEXT
}

mode=sync
while [ $# -gt 0 ]; do
  case "$1" in
    --mode)
      [ $# -ge 2 ] || {
        echo "strata: error: --mode needs a value: sync, lazy or async" >&2
        exit 2
      }
      mode=$2
      shift 2
      ;;
    --mode=*) mode=${1#--mode=}; shift ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    *) echo "strata: error: unknown option $1 (see --help)" >&2; exit 2 ;;
  esac
done
case "$mode" in
  sync | lazy | async) ;;
  *) echo "strata: error: --mode $mode: must be sync, lazy or async" >&2; exit 2 ;;
esac

cd "$(dirname "$0")/.."
cat <<'TEXT'
This installs Debian packages that are missing (compiler, Bazel, libraries, Fashion-MNIST; nothing
that only tests need, and no service), builds Strata in this folder and trains a model on this
machine. The first time it takes about 8 minutes on two cores, of which training takes a quarter of
a minute.
TEXT
deploy/install_packages.sh
deploy/build.sh //cli:strata
strata=bazel-bin/cli/strata

echo "Training LeNet-5 on Fashion-MNIST, mode $mode: 1 coordinator, 2 servers, 2 nodes x 2 ranks"
"$strata" local --servers 2 --nodes 2 --slots 2 \
  --job "examples/fashion_lenet_$mode.textproto" "$@"

others=$(echo "sync lazy async" | tr ' ' '\n' | grep -vx "$mode" | paste -sd' ')
cat <<TEXT

What to try next
  another mode:      deploy/quickstart.sh --mode ${others% *}    (or ${others#* })
  another model:     $strata local --nodes 2 --slots 2 --job examples/fashion_cnn_sync.textproto
  your own cluster:  docs/deployment.md

In a browser, at http://127.0.0.1:8265 (docs/web.md): start a cluster with its page, open the link
that it prints, and train in another terminal
  $strata local --nodes 2 --slots 2 --web
  $strata submit examples/fashion_lenet_$mode.textproto --follow
TEXT
