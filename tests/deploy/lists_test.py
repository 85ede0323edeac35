"""deploy/packages.txt: what quickstart.sh installs is what it builds and trains with, nothing else.

A package is used where a source includes one of its headers, or one of Bazel's files or an example
names one of its paths. What stands in WHY is used in another way, which is looked up, too.
"""

import os
import re
import unittest

import fresh_root

# The test itself lies behind a link in Bazel's folder.
TREE = os.path.dirname(os.path.realpath(__file__)) + "/../.."
# Package -> (file, what it says): used by no path and no header.
WHY = {
    "bazel-bootstrap": ("deploy/build.sh", "bazel build "),
    "g++": ("third_party/BUILD", "cc_library("),
    "protobuf-compiler": ("third_party/proto.bzl", "protoc "),
}
# Packages that only tests and benchmarks need, and those that start services.
FORBIDDEN = re.compile(
    r"^(chromium|etcd-.*|libopenmpi.*|munge|openmpi.*|openssh-(client|server)|slurm.*|systemd)$"
)
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]', re.M)
PATH = re.compile(r'/usr/[^"\s\')]+')


def read(path):
    with open(f"{TREE}/{path}", encoding="utf-8", errors="replace") as opened:
        return opened.read()


def names(text):
    return [line.strip() for line in text.splitlines() if line.strip() and line[0] != "#"]


def sources(suffixes):
    for folder, folders, files in os.walk(TREE):
        folders[:] = [f for f in folders if not f.startswith((".", "bazel-"))]
        for file in files:
            if file.endswith(suffixes) or file in suffixes:
                yield os.path.relpath(f"{folder}/{file}", TREE)


def package_files(name, fields):
    lines = set()
    for path in fresh_root.info_files(name, fields):
        if path.endswith(".list"):
            with open(path, encoding="utf-8") as opened:
                lines.update(opened.read().splitlines())
    return lines


def headers(name, packages):
    """What programs may include of a package; of those that it depends on, where it is empty."""
    found = {
        re.sub(r"^/usr/include/(x86_64-linux-gnu/)?", "", path)
        for path in package_files(name, packages[name])
        if path.startswith("/usr/include/")
    }
    if not found:
        for group in fresh_root.depends(packages[name]):
            if group[0].endswith("-dev") and group[0] in packages:
                found |= headers(group[0], packages)
    return found


class Lists(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(fresh_root.STATUS, encoding="utf-8") as opened:
            cls.packages = fresh_root.read_installed(opened.read())
        cls.listed = names(read("deploy/packages.txt"))
        cls.included = set()
        for path in sources((".cc", ".h")):
            cls.included.update(INCLUDE.findall(read(path)))
        cls.named = set()
        for path in sources((".bzl", "BUILD", "WORKSPACE", ".textproto")):
            cls.named.update(PATH.findall(read(path)))

    def is_used(self, name):
        if name in WHY:
            file, words = WHY[name]
            return words in read(file)
        if self.included & headers(name, self.packages):
            return True
        return bool(self.named & package_files(name, self.packages[name]))

    def test_each_package_is_used(self):
        unused = [name for name in self.listed if not self.is_used(name)]
        self.assertEqual(unused, [], "deploy/packages.txt: nothing here uses these")

    def test_a_package_that_nothing_uses_is_found(self):
        self.assertFalse(self.is_used("bash"))

    def test_none_of_them_brings_what_only_tests_want(self):
        brought = fresh_root.closure(self.packages, self.listed)
        self.assertEqual([name for name in sorted(brought) if FORBIDDEN.match(name)], [])
        self.assertTrue(FORBIDDEN.match("slurmd"))

    def test_the_lists_are_sorted_and_share_nothing(self):
        tests = names(read("deploy/packages-tests.txt"))
        for listed in (self.listed, tests):
            self.assertEqual(listed, sorted(set(listed)))
        self.assertEqual(set(self.listed) & set(tests), set())


if __name__ == "__main__":
    unittest.main()
