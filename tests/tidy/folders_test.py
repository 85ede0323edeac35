#!/usr/bin/env python3
"""Folders that use what they may not, that use each other, and that are too full are found."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import folders  # noqa: E402
from run import Tree  # noqa: E402

TABLE = """
| folder | holds | rooms inside, each may use those before it | may use |
| --- | --- | --- | --- |
| `common/` | ids | | - |
| `server/shard/` | chunks | `sum` `chunk` `.` | `common/` |
| `server/daemon/` | the process | | `common/` `server/shard/` |
| `cli/` | commands | | all |
"""


def tree(path, target):
    return Tree({"ARCHITECTURE.md": TABLE, path: f'\n#include "{target}"\n', target: ""})


class FoldersTest(unittest.TestCase):
    def test_what_the_table_allows_is_no_finding(self):
        for path, target in (
            ("server/shard/core.cc", "common/ids.h"),
            ("server/shard/core.cc", "server/shard/chunk/state.h"),
            ("server/shard/chunk/state.cc", "server/shard/sum/tree.h"),
            ("server/shard/sum/tree.cc", "server/shard/sum/leaf.h"),
            ("server/daemon/daemon.cc", "server/shard/core.h"),
            ("cli/main.cc", "server/shard/sum/tree.h"),
            ("server/shard/sum/tree_test.cc", "server/daemon/daemon.h"),
            ("server/shard/testing/harness.h", "server/shard/core.h"),
        ):
            self.assertEqual(list(folders.folder_table(tree(path, target))), [], (path, target))
        texts = {"ARCHITECTURE.md": TABLE, "common/a.cc": '#include "absl/status/status.h"\n'}
        self.assertEqual(list(folders.folder_table(Tree(texts))), [], "not of this tree")

    def test_what_the_table_does_not_allow_is_found_with_its_line(self):
        for path, target, text in (
            ("common/ids.h", "server/shard/core.h", "common/ may not use server/shard/"),
            ("common/ids_test.cc", "server/shard/core.h", "common/ may not use server/shard/"),
            ("server/shard/core.cc", "server/daemon/daemon.h", "may not use server/daemon/"),
            ("server/shard/sum/t.cc", "server/shard/chunk/s.h", "may not use server/shard/chunk/"),
            ("server/shard/chunk/s.cc", "server/shard/core.h", "may not use server/shard/ "),
            ("server/shard/new/a.cc", "server/shard/sum/s.h", "server/shard/new/ is no room"),
            ("worker/a.cc", "common/ids.h", "worker/ is in no row"),
            ("cli/main.cc", "worker/a.h", "worker/ is in no row"),
        ):
            found = list(folders.folder_table(tree(path, target)))
            self.assertEqual(len(found), 1, (path, target, found))
            self.assertTrue(found[0].startswith(f"{path}:2: "), found)
            self.assertIn(text, found[0])

    def test_headers_that_protoc_makes_count_as_their_proto_file(self):
        texts = {"ARCHITECTURE.md": TABLE, "server/daemon/a.proto": "", "common/b.cc": ""}
        texts["common/b.cc"] = '#include "server/daemon/a.grpc.pb.h"\n'
        self.assertEqual(len(list(folders.folder_table(Tree(texts)))), 1)

    def test_folders_that_use_each_other_are_found(self):
        texts = {
            "a/x.h": '#include "b/y.h"\n',
            "b/y.h": '#include "c/z.h"\n',
            "c/z.h": "",
            "c/z.cc": '#include "a/x.h"\n',
        }
        found = list(folders.folder_cycles(Tree(texts)))
        self.assertEqual(len(found), 1)
        self.assertIn("a cycle of folders: a, b, c", found[0])
        texts["c/z_test.cc"] = texts.pop("c/z.cc")
        self.assertEqual(list(folders.folder_cycles(Tree(texts))), [])

    def test_full_folders_are_found(self):
        full = {f"a/{n}.cc": "" for n in range(71)}
        self.assertEqual(
            list(folders.folder_size(Tree(full))), ["a:1: folder of 71 files, more than 70"]
        )
        full.pop("a/0.cc")
        self.assertEqual(list(folders.folder_size(Tree(full))), [])


if __name__ == "__main__":
    unittest.main()
