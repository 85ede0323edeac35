"""The page of a report in headless Chromium: charts, complaints, widths, light and dark.

  page_test.py [--screenshots DIR]    DIR: where pictures of the page go
"""

import contextlib
import json
import os
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.abspath("compare/report"))
from browser import BrowserError  # noqa: E402
from page_case import HOSTILE, VIEWS, PageCase, main  # noqa: E402

# The sample has eight modes: the last has failed with all seeds, and only lazy and async modes
# push stale gradients ("0" is a bin, too).
FINISHED = range(7)
IN_CHART = {
    "accuracy": range(8),  # that of the last: thin lines
    "loss": range(8),
    "time": [0, 1, 2, 4, 6],
    "bytes": FINISHED,
    "waiting": FINISHED,
    "staleness": FINISHED,
}


def chart_findings(browser, scheme, expected=None):
    """Charts in which a mode is not to be seen: neither objects nor promises, but pixels."""
    found = []
    colours = browser.run("palette")[scheme]
    for chart, modes in (expected or IN_CHART).items():
        for mode in modes:
            pixels = browser.run(f"checks.count('{chart}', '{colours[mode]}')")
            if pixels < 8:
                found.append(f"chart {chart}: mode {mode} has {pixels} pixels of {colours[mode]}")
    return found


def interval_findings(browser):
    """Bars whose interval or figure is not to be seen."""
    found = []
    for chart, figure in (
        ("time", "seconds_to_target"),
        ("bytes", "bytes_per_step"),
        ("waiting", "waiting_share"),
    ):
        for mode in IN_CHART[chart]:
            estimate = f"report.modes[{mode}].{figure}"
            if browser.run(f"{estimate}.count < report.seeds_for_interval"):
                continue  # it is not shown
            pixels = browser.run(f"checks.interval('{chart}', {mode}, {estimate})")
            if min(pixels) < 5:
                found.append(f"chart {chart}: interval or figure of mode {mode}: {pixels} pixels")
    return found


def cut_findings(browser):
    """Figures behind bars that do not end within their picture."""
    found = []
    for chart in ("time", "bytes", "waiting"):
        right = browser.run(f"""(() => {{
            if (!charts["{chart}"]) return 0;  // it was not drawn, which is found elsewhere
            const {{ ctx, chartArea, scales: {{ x }} }} = charts["{chart}"];
            ctx.font = Chart.helpers.toFont({{ size: 12 }}).string;
            const rows = described["{chart}"].modes.filter((row) => row.value !== null);
            const ends = rows.map((row) => {{
              const end = Math.max(row.value, row.high === null ? 0 : row.high);
              const bar = Math.min(x.getPixelForValue(end), chartArea.right);
              return bar + 6 + ctx.measureText(row.text).width;
            }});
            return Math.max(0, ...ends) - document.getElementById("{chart}").clientWidth;
        }})()""")
        if right > 0:
            found.append(f"chart {chart}: figures are cut by {right:.0f} px")
    return found


def hint_findings(browser):
    """A table that scrolls without a word of it, or a word where it does not."""
    scrolls = browser.run("""[...document.querySelectorAll('.scroll')].map((box) =>
        [box.scrollWidth > box.clientWidth + 1,
         box.nextElementSibling.matches('.hint') && !box.nextElementSibling.hidden])""")
    return [f"scrolls: {real}, says so: {said}" for real, said in scrolls if real != said]


def findings(browser, path, width, scheme, expected=None):
    """All that is wrong with a page, seen so; `expected`: instead of IN_CHART."""
    found = browser.inspect(path, width, scheme, len(IN_CHART))
    found += chart_findings(browser, scheme, expected)
    if browser.run("document.body.dataset.charts") and not expected:
        found += interval_findings(browser)
    browser.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    browser.settle()
    found += browser.unreadable()
    found += [f"broken word: {word}" for word in browser.run("checks.broken()")]
    found += cut_findings(browser)
    found += hint_findings(browser)
    card = browser.run("getComputedStyle(document.querySelector('section')).backgroundColor")
    for colour in browser.run("palette")[scheme]:
        rgb = "rgb(%d, %d, %d)" % tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))
        ratio = browser.run(f"checks.contrast('{rgb}', '{card}')")
        if ratio < 3:
            found.append(f"contrast {ratio:.1f}: lines of {colour}")
    is_dark = browser.run(f"checks.contrast('{card}', 'rgb(0, 0, 0)') < 3")
    if is_dark != (scheme == "dark"):
        found.append(f"not {scheme}")
    return found


class PageTest(PageCase):
    writer = "compare/report/write_sample_report"

    def click(self, text, container):
        script = f"""[...document.querySelectorAll('{container} button')]
            .find(b => b.textContent === {json.dumps(text)}).click()"""
        self.browser.run(script)
        self.browser.settle()

    def until_shown(self, text):
        """Waits until the page, which loads itself again, says so of what is under way."""
        shown = "(document.getElementById('under-way') || {textContent: ''}).textContent"
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(BrowserError):  # it is being loaded
                if text in self.browser.run(shown):
                    return
            self.assertLess(time.monotonic(), deadline, f"{text} is not shown")
            time.sleep(0.05)

    def pixels(self, chart, mode):
        return self.browser.run(f"checks.count('{chart}', palette.light[{mode}])")

    def test_every_chart_is_drawn_and_readable_at_both_widths_in_light_and_dark(self):
        for width, scheme in VIEWS:
            with self.subTest(width=width, scheme=scheme):
                self.assertEqual(findings(self.browser, self.path, width, scheme), [])

    def test_unusual_comparisons_are_drawn_and_readable_too(self):
        curves = ("accuracy", "loss")
        for kind, expected, verdict in [
            ("one-run", {chart: [0] for chart in IN_CHART if chart != "staleness"}, "One mode:"),
            ("all-failed", {chart: [0, 1] for chart in curves}, "No comparison:"),
            ("many-modes", {chart: range(8) for chart in curves}, "Sooner to"),
        ]:
            with tempfile.TemporaryDirectory() as made:
                path = self.write_sample(made, kind)
                for width, scheme in VIEWS:
                    with self.subTest(kind=kind, width=width, scheme=scheme):
                        found = findings(self.browser, path, width, scheme, expected)
                        self.assertEqual(found, [])
                        said = self.browser.run("document.getElementById('overall').textContent")
                        self.assertTrue(said.startswith(verdict), said)

    def test_names_from_the_job_are_text(self):
        self.assertEqual(findings(self.browser, self.path, 1280, "light"), [])
        self.assertEqual(
            self.browser.run("document.querySelector('h1').textContent"), HOSTILE
        )
        self.assertEqual(self.browser.run("document.title"), f"{HOSTILE}: comparison of modes")
        self.assertEqual(self.browser.run("document.querySelectorAll('b').length"), 0)
        self.assertEqual(self.browser.run("document.scripts.length"), 5)
        rows = self.browser.run("[...document.querySelectorAll('#figures tr')].length")
        self.assertEqual(rows, 9)
        last = "document.querySelector('#figures tr:last-child td').textContent"
        self.assertEqual(self.browser.run(last), HOSTILE)

    def test_the_page_says_what_report_json_says(self):
        self.browser.show_as(1280, "light")
        self.browser.open(self.path)
        with open(os.path.join(self.dir.name, "report.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(self.browser.run("report"), report)
        text = self.browser.run("document.body.textContent")
        for sentence in [report["verdict"], *report["rules"]]:
            self.assertIn(sentence, text)
        for mode in report["modes"]:
            self.assertIn(mode["verdict"], text)
            self.assertIn(mode["job"], text)

    def test_the_first_line_says_which_mode_and_cards_have_time_and_speed(self):
        self.assertEqual(findings(self.browser, self.path, 1280, "light"), [])
        answer = self.browser.run("document.getElementById('answer').textContent")
        self.assertRegex(answer, r"^Use lazy:diloco\(16\): it reaches 85\.\d % \d\.\d+ x sooner "
                                 r"than sync \(\d\.\d+ to \d\.\d+\), with equal accuracy\.$")
        first = "document.querySelector('main section p').id"
        self.assertEqual(self.browser.run(first), "answer")
        cards = self.browser.run("[...document.querySelectorAll('.mode')].map(c => c.textContent)")
        self.assertRegex(cards[0], r"^sync\d+\.\d+ s to 85\.\d %baseline$")
        self.assertRegex(cards[2], r"^lazy:diloco\(16\)\d+\.\d+ s to 85\.\d %\d\.\d\d × sooner"
                                   r"accuracy equal \([+-]0\.\d\d\)$")

    def test_settings_stand_beneath_short_names(self):
        with tempfile.TemporaryDirectory() as made:
            path = self.write_sample(made, "many-modes")
            expected = {chart: range(8) for chart in ("accuracy", "loss")}
            self.assertEqual(findings(self.browser, path, 400, "light", expected), [])
            cell = "document.querySelectorAll('#figures tr')[9].firstChild"
            short = f"{cell}.querySelector('.short').textContent"
            self.assertEqual(self.browser.run(short), "sync")
            beneath = f"[...{cell}.querySelectorAll('.setting')].map(s => s.textContent)"
            self.assertEqual(self.browser.run(beneath), ["push.codec=FP16", "pull.codec=FP16"])

    def test_two_seeds_are_said_to_be_too_few(self):
        with tempfile.TemporaryDirectory() as made:
            path = self.write_sample(made, "two-seeds")
            expected = {chart: [0, 1] for chart in ("accuracy", "loss", "bytes", "waiting")}
            for width, scheme in VIEWS:
                self.assertEqual(findings(self.browser, path, width, scheme, expected), [])
            answer = self.browser.run("document.getElementById('answer').textContent")
            self.assertIn("Undecided: ", answer)
            self.assertIn("by 2 seeds alone: add ", answer)
            text = self.browser.run("document.querySelector('#verdict').textContent")
            self.assertIn("2 seeds, too few to judge", text)
            table = self.browser.run("document.getElementById('figures').textContent")
            self.assertNotIn(" to ", table.replace("time to", ""))
            self.assertIn("2 seeds", table)
            self.assertIsNone(self.browser.run("described.bytes.modes[0].low"))

    def test_a_comparison_that_runs_says_how_long_it_takes_and_looks_again(self):
        with tempfile.TemporaryDirectory() as made:
            path = self.write_sample(made, "under-way")
            expected = {chart: [0, 1] for chart in ("accuracy", "loss", "bytes", "waiting")}
            self.assertEqual(findings(self.browser, path, 400, "light", expected), [])
            said = self.browser.run("document.getElementById('under-way').textContent")
            self.assertEqual(said, "So far: 4 of 6 runs are made, about 1:30 left.")
            with open(path, encoding="utf-8") as file:
                page = file.read().replace("RELOAD_MS = 10000", "RELOAD_MS = 1500")
            with open(path, "w", encoding="utf-8") as file:
                file.write(page.replace("4 of 6 runs", "5 of 6 runs"))
            self.browser.open(path)
            self.until_shown("5 of 6")
            with open(path, "w", encoding="utf-8") as file:
                file.write(page.replace("4 of 6 runs", "6 of 6 runs"))
            self.until_shown("6 of 6")
        self.browser.show_as(1280, "light")
        self.browser.open(self.path)
        self.assertTrue(self.browser.run("document.getElementById('under-way').hidden"))

    def test_axes_can_be_switched(self):
        self.assertEqual(findings(self.browser, self.path, 1280, "light"), [])
        ends = {}
        for name in ("samples", "time", "updates"):
            self.click(name, "#axis")
            curves = {chart: range(8) for chart in ("accuracy", "loss")}
            self.assertEqual(chart_findings(self.browser, "light", curves), [], name)
            # Where the last point of sync's mean lies.
            last = "charts.accuracy.data.datasets.find(d => d.isMean).data.slice(-1)[0].x"
            ends[name] = self.browser.run(last)
        self.assertEqual(ends["samples"], 256000)
        self.assertEqual(ends["updates"], 1000)
        self.assertAlmostEqual(ends["time"], 40, delta=2)
        self.click("top 10 points", "#zoom")
        self.assertGreater(self.browser.run("charts.accuracy.scales.y.min"), 0.7)
        self.assertEqual(self.browser.complaints, [])

    def test_modes_can_be_hidden(self):
        self.assertEqual(findings(self.browser, self.path, 1280, "light"), [])
        before = self.pixels("loss", 3)
        self.click("async", "#legend")
        self.assertLess(self.pixels("loss", 3), before / 4)
        self.click("async", "#legend")
        self.assertEqual(self.pixels("loss", 3), before)

    def test_charts_follow_a_change_between_light_and_dark(self):
        self.assertEqual(findings(self.browser, self.path, 1280, "light"), [])
        self.browser.show_as(1280, "dark")
        self.browser.settle()
        self.assertEqual(chart_findings(self.browser, "dark"), [])

    def test_what_is_broken_is_found(self):
        breakages = [
            ("a chart that is not drawn", "charts[id] = new Chart(canvas, config);",
             "if (id !== 'loss') charts[id] = new Chart(canvas, config);", "charts: 5 drawn"),
            ("a chart that is drawn empty", "data: { datasets },", "data: { datasets: [] },",
             "chart accuracy: mode 0"),
            ("bars of no length", "data: rows.map((row) => row.value),",
             "data: rows.map((row) => 0 * row.value),", "chart bytes: mode 0"),
            ("intervals that are not drawn", "chart.getDatasetMeta(0).data.forEach",
             "[].forEach", "interval or figure of mode 0"),
            ("an exception", "showHeader();\n", "showHeader(); undefined.gone();\n", "exception:"),
            ("a complaint", "showHeader();\n", "showHeader(); console.error('bad');\n",
             "console: bad"),
            ("a request", "<footer>", '<footer><img src="http://localhost:9/a" alt="">', "log:"),
            ("a word that is broken", "<footer>",
             '<footer><p style="width: 40px; overflow-wrap: anywhere">digitswhichgoon</p>',
             "broken word: digitswhichgoon"),
            ("figures that are cut", "padding: { right: figures }", "padding: { right: 2 }",
             "figures are cut by"),
            ("a small print", "<footer>", '<footer><span style="font-size: 9px">s</span>',
             "smaller than 12 px"),
        ]  # fmt: skip
        self.assert_breakages_are_found(
            breakages, lambda path: findings(self.browser, path, 1280, "light")
        )


if __name__ == "__main__":
    main(PageTest, "")
