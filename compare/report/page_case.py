"""Shared by tests of pages: a sample page in a browser, and the faults that break it."""

import os
import subprocess
import sys
import tempfile
import unittest

from browser import Browser

HOSTILE = "</script><b>\"'&amp;<!--"
VIEWS = [(width, scheme) for width in (1280, 400) for scheme in ("light", "dark")]
# Faults of any page: name, a text that it contains once, its replacement, the expected finding.
BREAKAGES = [
    ("a wide page", "<footer>", '<footer><div style="width: 1400px">w</div>', "wider"),
    ("a pale text", "<footer>", '<footer><span style="color: #ccc">p</span>', "contrast"),
]


class PageCase(unittest.TestCase):
    """A page that a program has written, and a browser for it."""

    maxDiff = None
    writer = None  # writes the samples: WRITER DIR [KIND]

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.dir.cleanup)
        cls.path = cls.write_sample(cls.dir.name)
        cls.browser = Browser()
        cls.browser.__enter__()
        cls.addClassCleanup(cls.browser.__exit__, None, None, None)

    @classmethod
    def write_sample(cls, directory, *kind):
        """Writes a sample there; the path of its page."""
        program = os.path.abspath(cls.writer)
        subprocess.run([program, directory, *filter(None, kind)], check=True, timeout=60)
        return os.path.join(directory, "report", "index.html")

    def assert_breakages_are_found(self, breakages, findings):
        """`findings`: all that is wrong with the page at a path. Were it blind, other tests would
        say nothing."""
        with open(self.path, encoding="utf-8") as file:
            page = file.read()
        for name, old, new, expected in breakages + BREAKAGES:
            with self.subTest(name):
                self.assertEqual(page.count(old), 1, old)
                path = os.path.join(self.dir.name, "broken.html")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(page.replace(old, new))
                found = findings(path)
                self.assertTrue(any(expected in finding for finding in found), found)

    @classmethod
    def write_screenshots(cls, directory, *kinds):
        with tempfile.TemporaryDirectory() as made, Browser() as browser:
            for kind in kinds:
                path = cls.write_sample(made, kind)
                for width, scheme in VIEWS:
                    browser.show_as(width, scheme)
                    browser.open(path)
                    name = "-".join(filter(None, [kind, str(width), scheme]))
                    browser.screenshot(os.path.join(directory, f"{name}.png"))


def main(case, *kinds):
    """The test, or with --screenshots DIR pictures of its samples of these kinds."""
    if sys.argv[1:2] == ["--screenshots"]:
        case.write_screenshots(sys.argv[2], *kinds)
    else:
        unittest.main(verbosity=2)
