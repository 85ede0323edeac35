# shellcheck shell=bash
# Read by the tests here: what they cannot do without, and how a test says so.

# skip REASON: ends the test; it counts as skipped, not as passed.
skip() {
  local name
  name=$(basename "$0" .sh)
  echo "SKIPPED: $1"
  cat > "${XML_OUTPUT_FILE:-/dev/null}" << END
<testsuites><testsuite name="$name"><testcase classname="packages" name="$name">
<skipped message="$1"/></testcase></testsuite></testsuites>
END
  exit 0
}

# need_namespaces: skips where this user may not make a root folder and namespaces of its own.
need_namespaces() {
  { [ "$(id -u)" -eq 0 ] && unshare --fork --mount --pid --net --uts --ipc true; } 2> /dev/null ||
    skip "needs root and new namespaces"
}

# need_tool COMMAND PACKAGE: what tests/run.sh installs; that it is missing is a failure.
need_tool() {
  command -v "$1" > /dev/null || {
    echo "FAILED: $2 is not installed: run deploy/install_packages.sh --tests"
    exit 1
  }
}

failures=0
check() { # WHAT CONDITION...
  local what=$1
  shift
  if "$@"; then echo "ok: $what"; else echo "FAILED: $what"; failures=$((failures + 1)); fi
}
is_in() { grep -qF -- "$1" "$2"; }
