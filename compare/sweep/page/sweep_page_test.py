"""The page of a sweep in headless Chromium: charts, complaints, widths, light and dark.

  sweep_page_test.py [--screenshots DIR]    DIR: where pictures of the page go
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.abspath("compare/report/page"))
from browser import Browser  # noqa: E402

WRITE_SAMPLE = os.path.abspath("compare/sweep/write_sample_sweep")
HOSTILE = "</script><b>\"'&amp;<!--"
VIEWS = [(width, scheme) for width in (1280, 400) for scheme in ("light", "dark")]
# Lines of each chart; that of the second codec lacks the point that failed.
LINES = {"": [2, 3], "halved": [1]}


def write_sample(directory, *kind):
    subprocess.run([WRITE_SAMPLE, directory, *kind], check=True, timeout=60)
    return os.path.join(directory, "report", "index.html")


def findings(browser, path, width, scheme, lines):
    """All that is wrong with a page, seen so."""
    found = browser.inspect(path, width, scheme, len(lines))
    colours = browser.run("palette")[scheme]
    for chart, count in enumerate(lines):
        for line in range(count):
            pixels = browser.run(
                f"document.getElementById('chart{chart}') ? "
                f"checks.count('chart{chart}', '{colours[line]}') : 0")
            if pixels < 8:
                found.append(f"chart {chart}: line {line} has {pixels} pixels")
    found += browser.unreadable()
    return found


class SweepPageTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.dir.cleanup)
        cls.path = write_sample(cls.dir.name)
        cls.browser = Browser()
        cls.browser.__enter__()
        cls.addClassCleanup(cls.browser.__exit__, None, None, None)

    def test_every_line_is_drawn_and_readable_at_both_widths_in_light_and_dark(self):
        for kind, lines in LINES.items():
            with tempfile.TemporaryDirectory() as made:
                path = write_sample(made, *filter(None, [kind]))
                for width, scheme in VIEWS:
                    with self.subTest(kind=kind, width=width, scheme=scheme):
                        self.assertEqual(findings(self.browser, path, width, scheme, lines), [])

    def test_the_page_says_what_sweep_json_says(self):
        self.browser.show_as(1280, "light")
        self.browser.open(self.path)
        with open(os.path.join(self.dir.name, "sweep.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(self.browser.run("report"), report)
        self.assertEqual(self.browser.run("document.querySelector('h1').textContent"), HOSTILE)
        self.assertEqual(self.browser.run("document.querySelectorAll('b').length"), 0)
        self.assertEqual(self.browser.run("document.scripts.length"), 4)
        text = self.browser.run("document.body.textContent")
        for sentence in [*report["verdict"], *report["rules"]]:
            self.assertIn(sentence, text)
        rows = self.browser.run("[...document.querySelectorAll('#figures tr')]"
                                ".map(row => [...row.children].map(cell => cell.textContent))")
        self.assertEqual(rows, report["table"])
        points = self.browser.run("charts.chart0.data.datasets.map(d => d.data.length)")
        self.assertEqual(points, [3, 2])
        ticks = self.browser.run("charts.chart0.scales.x.ticks.map(t => t.label)")
        self.assertEqual(ticks, ["0.01", "0.03", "0.1"])
        ticks = self.browser.run("charts.chart1.scales.x.ticks.map(t => t.label)")
        self.assertEqual(ticks, ["FP16", HOSTILE])

    # Were these checks blind, the others would say nothing.
    def test_what_is_broken_is_found(self):
        with open(self.path, encoding="utf-8") as file:
            page = file.read()
        for name, old, new, expected in [
            ("a chart that is not drawn", "report.vary.forEach(drawField);",
             "report.vary.slice(1).forEach(drawField);", "charts: 1 drawn"),
            ("lines without points", "data: line.points.map(", "data: [].map(",
             "chart 0: line 0"),
            ("an exception", "showTable();\nshowAll();", "undefined.gone(); showTable();",
             "exception:"),
            ("a wide page", "<footer>", '<footer><div style="width: 1400px">w</div>', "wider"),
            ("a pale text", "<footer>", '<footer><span style="color: #ccc">p</span>', "contrast"),
        ]:  # fmt: skip
            with self.subTest(name):
                self.assertEqual(page.count(old), 1, old)
                path = os.path.join(self.dir.name, "broken.html")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(page.replace(old, new))
                found = findings(self.browser, path, 1280, "light", LINES[""])
                self.assertTrue(any(expected in finding for finding in found), found)


def screenshots(directory):
    with tempfile.TemporaryDirectory() as made, Browser() as browser:
        for kind in LINES:
            path = write_sample(made, *filter(None, [kind]))
            for width, scheme in VIEWS:
                browser.show_as(width, scheme)
                browser.open(path)
                browser.screenshot(
                    os.path.join(directory, f"sweep{kind and '-' + kind}-{width}-{scheme}.png"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--screenshots"]:
        screenshots(sys.argv[2])
    else:
        unittest.main(verbosity=2)
