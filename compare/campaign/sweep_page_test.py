"""The page of a sweep in headless Chromium: charts, complaints, widths, light and dark.

  sweep_page_test.py [--screenshots DIR]    DIR: where pictures of the page go
"""

import json
import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.abspath("compare/report"))
from page_case import HOSTILE, VIEWS, PageCase, main  # noqa: E402

# Lines of each chart; that of the second codec lacks the point that failed.
LINES = {"": [2, 3], "halved": [1]}


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


class SweepPageTest(PageCase):
    writer = "compare/campaign/write_sample_sweep"

    def test_every_line_is_drawn_and_readable_at_both_widths_in_light_and_dark(self):
        for kind, lines in LINES.items():
            with tempfile.TemporaryDirectory() as made:
                path = self.write_sample(made, kind)
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
        self.assertEqual(self.browser.run("document.scripts.length"), 5)
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

    def test_what_is_broken_is_found(self):
        breakages = [
            ("a chart that is not drawn", "report.vary.forEach(drawField);",
             "report.vary.slice(1).forEach(drawField);", "charts: 1 drawn"),
            ("lines without points", "data: line.points.map(", "data: [].map(",
             "chart 0: line 0"),
            ("an exception", "showTable();\nshowAll();", "undefined.gone(); showTable();",
             "exception:"),
        ]  # fmt: skip
        self.assert_breakages_are_found(
            breakages, lambda path: findings(self.browser, path, 1280, "light", LINES[""])
        )


if __name__ == "__main__":
    main(SweepPageTest, *LINES)
