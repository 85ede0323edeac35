"""Tests that are not there are found, those that are there are not."""

import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import named_tests  # noqa: E402

BUILD = """cc_library(
    name = "other",
    srcs = ["other.cc"],
)

cc_test(
    name = "x_test",
    size = "small",
    srcs = [
        "x_test.cc",
        "more_test.cc",
    ],
    deps = [":other"],
)

cc_test(
    name = "y_test",
    units = [
        [
            "y_test.cc",
        ],
    ],
)

cc_library(
    name = "linked_suite",
    srcs = ["linked_test.cc"],
)

cc_test(
    name = "suite_test",
    deps = [":linked_suite"],
)
"""
FILES = {
    "a/b/BUILD": BUILD,
    "a/b/x_test.cc": "TEST(Suite, Plain) {\nTEST_P(Suite, OfAll) {\n",
    "a/b/more_test.cc": "TEST_F(SuiteWithAFixture,\n       WhoseNameIsLong) {\n// TEST(Suite) Gone",
    "a/b/y_test.cc": "TEST(Other, Plain) {\n",
    "a/b/other.cc": "TEST(Library, Plain) {\n",
    "a/b/linked_test.cc": "TEST_F(Linked, Plain) {\n",
}


def findings(text):
    files = {**FILES, "page.md": text}
    with tempfile.TemporaryDirectory() as root:
        for path, content in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)) or root, exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(content)
        return list(named_tests.check(root, list(files)))


class NamedTests(unittest.TestCase):
    def test_what_is_there_is_good(self):
        self.assertEqual(findings("| G1 | `a/b:x_test` | `Suite.Plain` |\n"
                                  "`//a/b:x_test` `Suite.OfAll`, `a/b:y_test`, `Other.Plain`\n"
                                  "`a/b:x_test` `SuiteWithAFixture.WhoseNameIsLong`"), [])

    def test_a_target_that_is_not_there_is_found(self):
        self.assertEqual(findings("words\n`a/b:z_test`"), ["page.md:2: a/b:z_test: no such target"])
        self.assertEqual(findings("`a:x_test`"), ["page.md:1: a:x_test: no such target"])
        self.assertEqual(findings("`//a/b:other_test`"),
                         ["page.md:1: a/b:other_test: no such target"])

    def test_a_test_that_is_not_there_is_found(self):
        self.assertEqual(findings("| `a/b:x_test` | `Suite.Gone` |"),
                         ["page.md:1: a/b:x_test: has no test Suite.Gone"])

    def test_a_test_of_another_suite_or_target_is_found(self):
        for text in ("`a/b:x_test` `Other.Plain`", "`a/b:y_test` | `Suite.Plain`",
                     "`a/b:x_test` `Suite.Plai`", "`a/b:x_test` `uite.Plain`"):
            self.assertEqual(len(findings(text)), 1, text)

    def test_tests_of_a_suite_that_a_target_links_are_its_own(self):
        self.assertEqual(findings("`a/b:suite_test` `Linked.Plain`"), [])
        for text in ("`a/b:suite_test` `Linked.Gone`", "`a/b:y_test` `Linked.Plain`",
                     "`a/b:x_test` `Library.Plain`"):
            self.assertEqual(len(findings(text)), 1, text)

    def test_each_of_a_line_is_looked_at(self):
        self.assertEqual(len(findings("`a/b:x_test` `Suite.Plain` and `a/b:z_test` `A.B`")), 1)


if __name__ == "__main__":
    unittest.main()
