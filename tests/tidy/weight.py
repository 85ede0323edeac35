"""What the tree weighs, and its ratchet: tests/tidy/weight.txt."""

import re

FILE = "tests/tidy/weight.txt"
# A change may add so much before somebody has to say why; what has become lighter by as much lowers
# the ratchet.
SLACK = 0.05
# Calls of a BUILD file that make no target.
NO_TARGETS = ("load", "package", "exports_files", "glob", "select", "licenses")
# The page where a bare machine's time for `tests/run.sh` stands, and the row that has it.
MEASURED = "bench/RESULTS.md"
SUITE = re.compile(r"^\| \*\*the suite, in all\*\* \| \*\*(\d+)\*\*", re.M)


class _Loaded(list):
    """Whatever another file defines: a rule, whose calls are kept, or a constant."""

    def __init__(self, name, calls):
        super().__init__()
        self._name, self._calls = name, calls

    def __call__(self, *_, **attributes):
        self._calls.append((self._name, attributes))
        return []

    def __add__(self, other):
        return other

    __radd__ = __add__


class _Names(dict):
    """The names of a BUILD file: those that it does not define itself are loaded."""

    def __init__(self):
        super().__init__(__builtins__={})
        self.update({"len": len, "range": range, "sorted": sorted, "str": str, "dict": dict})
        self.calls = []

    def __missing__(self, name):
        return _Loaded(name, self.calls)


def build_calls(text):
    """The calls of a BUILD file, whose language is a part of Python's: (rule, attributes)."""
    names = _Names()
    exec(compile(text, "BUILD", "exec"), names)  # noqa: S102
    return [(rule, attributes) for rule, attributes in names.calls if rule not in NO_TARGETS]


def sources(value):
    listed = value if isinstance(value, list) else []
    return [one for one in listed if str(one).endswith((".cc", ".cu"))]


def weigh(tree):
    """What is counted -> how much there is of it."""
    found = {"targets": 0, "units": 0, "build_files": 0, "folders": 0, "files": len(tree.paths)}
    found["markdown_bytes"] = 0
    folders = set()
    for path in tree.paths:
        folders.add(path.rpartition("/")[0])
        if path.endswith(".md"):
            found["markdown_bytes"] += len(tree.text(path).encode())
        if path.split("/")[-1] != "BUILD":
            continue
        found["build_files"] += 1
        for _, attributes in build_calls(tree.text(path)):
            found["targets"] += 1
            # A list of `units` is compiled as one file.
            found["units"] += len(attributes.get("units", []))
            found["units"] += len(sources(attributes.get("srcs")))
    found["folders"] = len(folders)
    suite = SUITE.search(tree.text(MEASURED)) if MEASURED in tree.paths else None
    if suite:
        found["suite_minutes"] = round(int(suite.group(1)) / 60)
    return found


def weight(tree):
    """What has grown by more than the slack, or has shrunk so that the ratchet can be lowered."""
    if FILE not in tree.paths:
        return
    found = weigh(tree)
    for number, line in enumerate(tree.text(FILE).split("\n"), 1):
        stated = re.match(r"(\d+)\s+(\w+)$", line)
        if not stated:
            continue
        limit, what = int(stated.group(1)), stated.group(2)
        if what not in found:
            yield f"{FILE}:{number}: nothing counts {what}"
        elif found[what] > limit * (1 + SLACK):
            yield f"{FILE}:{number}: {found[what]} {what}, more than {limit}: make it lighter"
        elif found[what] < limit * (1 - SLACK):
            yield f"{FILE}:{number}: {found[what]} {what} are left of {limit}: lower the number"


ALL = (weight,)
