#!/usr/bin/env bash
# Makes the documents into a site that any web server, or a browser from the disk, can show. The
# site generator comes from PyPI into ~/.cache/strata-site; nothing is written into this tree. The
# page of commands is made from the help of bazel-bin/cli/strata, which must be built.
#
# usage: docs/generate/site.sh [--out FOLDER] [--serve]
#   --out FOLDER   default: ~/.cache/strata-site/html
#   --serve        shows it at http://127.0.0.1:8000 until Ctrl-C
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/strata-site
out=$cache/html
serve=0
while [ $# -gt 0 ]; do
  case "$1" in
    --out)
      [ $# -ge 2 ] || { echo "strata: error: --out needs a value" >&2; exit 2; }
      out=$(realpath -m "$2")
      shift
      ;;
    --serve) serve=1 ;;
    *) echo "strata: error: unknown option $1 (--out or --serve)" >&2; exit 2 ;;
  esac
  shift
done

[ -x "$root/bazel-bin/cli/strata" ] || {
  echo "strata: error: bazel-bin/cli/strata: is not built: deploy/build.sh //cli:strata" >&2
  exit 1
}
requirements=$root/docs/generate/requirements.txt
if ! cmp -s "$requirements" "$cache/requirements.txt"; then
  echo "Installing mkdocs-material into $cache (about a minute)"
  rm -rf "$cache/venv"
  python3 -m venv "$cache/venv" || {
    echo "strata: error: python3 -m venv failed (Debian package python3-venv)" >&2
    exit 1
  }
  "$cache/venv/bin/pip" --quiet install --requirement "$requirements"
  cp "$requirements" "$cache/requirements.txt"
fi

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
python3 "$root/docs/generate/stage.py" "$stage"
export NO_MKDOCS_2_WARNING=1 PYTHONPATH=$root/docs/generate PYTHONDONTWRITEBYTECODE=1
"$cache/venv/bin/mkdocs" --quiet build --config-file "$stage/mkdocs.yml" --site-dir "$out"
echo "$out/index.html"
[ "$serve" -eq 0 ] || python3 -m http.server --bind 127.0.0.1 --directory "$out" 8000
