"""Broken links are found, good ones and those of the web are not."""

import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import links  # noqa: E402


def findings(made=None, **texts):
    with tempfile.TemporaryDirectory() as root:
        paths = [name.replace("__", "/") + ".md" for name in texts]
        for path, text in zip(paths, texts.values()):
            os.makedirs(os.path.dirname(os.path.join(root, path)) or root, exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        return list(links.check(root, paths, made))


class Links(unittest.TestCase):
    def test_a_file_that_is_not_there_is_found(self):
        found = findings(a="words\n[b](docs/b.md)", b="")
        self.assertEqual(found, ["a.md:2: docs/b.md: no such file"])

    def test_a_picture_that_is_not_there_is_found_inside_a_link(self):
        self.assertEqual(len(findings(a="[![x](x.svg)](b.md)", b="")), 1)

    def test_a_heading_that_is_not_there_is_found(self):
        found = findings(a="[b](docs/b.md#two)", docs__b="# One\n")
        self.assertEqual(found, ["a.md:1: docs/b.md#two: no such heading in docs/b.md"])

    def test_headings_have_the_anchors_of_github(self):
        text = "# The `x.y` of *a*, b\n## One\n## One\n"
        links_text = "[1](b.md#the-xy-of-a-b) [2](b.md#one) [3](b.md#one-1)"
        self.assertEqual(findings(a=links_text, b=text), [])

    def test_a_link_to_a_folder_above_and_to_its_own_heading_is_good(self):
        self.assertEqual(findings(docs__b="# One\n[a](../a.md) [d](../docs) [o](#one)", a=""), [])

    def test_pages_that_are_made_are_there_and_their_headings_and_links_are_checked(self):
        made = {"docs/made.md": "# One\n[b](b.md)\n"}
        text = "[1](docs/made.md#one) [2](docs/made.md#two)"
        self.assertEqual(findings(made, a=text), [
            "a.md:1: docs/made.md#two: no such heading in docs/made.md",
            "docs/made.md:2: b.md: no such file"])
        self.assertEqual(findings({"docs/made.md": None}, a=text), [])

    def test_code_and_the_web_are_left_alone(self):
        text = "`[x](y)` [w](https://example.org/x)\n```\n[x](y)\n```\n    [x](y)\n"
        self.assertEqual(findings(a=text), [])


if __name__ == "__main__":
    unittest.main()
