"""The dashboard in headless Chromium: who is stuck stands first, nothing is pale, wide or external.

  page_test.py [--screenshots DIR]    DIR: where pictures of its pages go
"""

import json
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.abspath("compare/report"))
sys.path.insert(0, os.path.abspath("cli/web"))
from browser import Browser  # noqa: E402
from page_case import HOSTILE, VIEWS, main  # noqa: E402
import sample_daemons  # noqa: E402
import sample_web  # noqa: E402
from sample_web import LONG, SCENES  # noqa: E402
from web_case import PAGES, WebCase, findings, shown  # noqa: E402
from web_server import TOKEN, WebServer  # noqa: E402

# Chart -> lines of the palette that are to be seen there.
LINES = {"loss": [0, 1], "speed": [2], "waiting": [0, 1], "bytes": [4, 5], "lr": [3]}
# Names that others give, each of which would run somewhere.
PAYLOADS = [
    "<script>window.ran = 1</script>",
    "<img src=x onerror=window.ran=1>",
    "\"><svg onload=window.ran=1>",
    "' onmouseover='window.ran=1' x='",
    "javascript:window.ran=1",
    "</title></style></script><iframe srcdoc='<script>parent.ran=1</script>'>",
    "data:text/html,<script>opener.ran=1</script>",
]
BYTES_MAX = 300_000
FIRST_PAINT_MS = 2000


def replaced(value, old, new):
    """The same with another text in all its texts and keys."""
    if isinstance(value, dict):
        return {replaced(key, old, new): replaced(one, old, new) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [replaced(one, old, new) for one in value]
    return value.replace(old, new) if isinstance(value, str) else value


class PageTest(WebCase):
    def test_every_page_is_readable_at_both_widths_in_light_and_dark(self):
        for scene, place, charts in PAGES:
            for width, scheme in VIEWS:
                with self.subTest(scene=scene, place=place, width=width, scheme=scheme):
                    self.server.show(scene)
                    found = findings(self.browser, self.server, place, width, scheme, charts)
                    self.assertEqual(found, [])

    def test_every_line_of_a_jobs_charts_is_drawn(self):
        for width, scheme in VIEWS:
            found = findings(self.browser, self.server, "#/job/3", width, scheme, 6)
            self.assertEqual(found, [])
            colours = self.browser.run("palette")[scheme]
            for chart, lines in LINES.items():
                for line in lines:
                    pixels = self.browser.run(f"checks.count('{chart}', '{colours[line]}')")
                    self.assertGreater(pixels, 20, f"{chart} {line} {width} {scheme}")

    def test_who_is_stuck_is_said_first_and_the_longest_wait_before_others(self):
        self.open("#/")
        self.assertEqual(self.browser.run("document.querySelector('main').children[0].className"),
                         "stuck")
        self.assertEqual(self.texts(".waits .since"), ["12 s", "4 s"])
        self.assertEqual(self.texts(".waits .how"), ["stuck", "waits"])
        self.assertIn("node 1 (w2) rank 3 at step 57 for 12 s: stopped by a signal",
                      self.texts(".waits .what")[0])
        self.assertEqual(self.browser.run("document.title"), "(1 stuck) cluster · Strata")
        self.open("#/job/3")
        script = "[...document.querySelector('main').children].map(e => e.className)"
        classes = self.browser.run(script)
        self.assertEqual(classes[:2], ["head", "stuck"])
        self.assertEqual(self.texts(".waits .since"), ["12 s", "4 s"])

    def test_nothing_is_stuck_is_said_in_green_and_in_words(self):
        self.open("#/", "calm")
        self.assertIn("Nothing is stuck", self.text(".stuck"))
        self.assertIn("2 jobs with 8 ranks at work", self.text(".stuck"))
        red, green, blue = self.browser.run(
            "getComputedStyle(document.querySelector('.calm')).color.match(/\\d+/g).map(Number)")
        self.assertTrue(green > 1.5 * red and green > 1.5 * blue, (red, green, blue))

    def test_what_is_not_known_now_is_not_said(self):
        self.open("#/", "quiet_and_stale")
        self.assertIn("Nothing was stuck then", self.text(".stuck .open"))
        for place in ("#/", "#/job/3"):
            self.open(place, "never")
            self.assertIn("The coordinator has not answered yet", self.text("main"))
            self.assertNotIn("stuck", self.text("main"))
            self.assertNotIn("there is no", self.text("main"))
        self.server.show("busy")
        self.until("document.querySelector('h1')?.textContent === 'job 3  lenet'")
        self.until(shown("#/job/3"))
        self.open("#/job/4", "not_finite")
        self.assertIn("not finite", self.text(".tiles"))

    def test_a_job_says_how_far_it_is_and_what_happened_to_it(self):
        self.open("#/job/3")
        self.assertEqual(self.text("h1"), "job 3  lenet")
        self.assertEqual(self.text(".head .badge"), "▶ running lazy(2)")
        self.assertEqual(self.text(".big"), "61 %ETA 29 s")
        self.assertEqual(self.text(".command code"), "strata logs 3 --follow")
        events = self.texts(".timeline span")
        self.assertEqual(events, [
            "from step 900 on with 6 ranks: node 2 joined; node 1 left (w2 is drained)",
            "node 1 at w9 was lost: silent for 5 s; goes on at w2, from step 300",
            "failed: server s2 has died; goes on from step 100",
            "began",
            "submitted",
        ])  # fmt: skip
        failed = "1 failed: step 600: /data: No space left on device"
        self.assertIn(failed, self.text(".checkpoints"))
        self.assertIn("1.19 MB of 1.25 MB", self.text(".shards"))

    def test_ended_failed_and_queued_jobs_say_so(self):
        self.open("#/job/4")
        self.assertIn("✕ failed", self.text(".head"))
        self.assertIn("loss is not finite at step 310", self.text(".head .reason.bad"))
        self.open("#/job/6")
        self.assertIn("waits for 8 slots, 2 are free", self.text(".head .reason.open"))
        self.assertIn("No window is complete yet", self.text())
        self.open("#/job/2")
        self.assertEqual(self.texts(".big strong"), ["100 %"])
        self.assertIn("Watched from step 200 on", self.text(".course"))
        self.assertEqual(self.texts(".stuck"), [])
        self.open("#/job/77")
        self.assertIn("there is no job 77", self.text("main"))

    def test_a_job_that_goes_while_it_is_shown_is_gone_until_it_is_back(self):
        jobs = [job for job in sample_web.busy_jobs([]) if job["status"]["job_id"] != 2]
        without = sample_web.scene(sample_daemons.some_daemons(), jobs)
        is_said = "document.querySelector('main').textContent.includes('there is no job 2')"
        for place in ("#/job/2", "#/compare/3/2"):
            self.open(place)
            self.server.show(without)
            self.until(is_said)
            self.server.show("busy")
            self.until(f"!{is_said}")

    def test_of_a_program_that_tells_neither_its_end_nor_a_loss_none_is_made_up(self):
        made = sample_web.busy()
        made["jobs"][5]["status"]["progress"].update(total_steps=0, loss=0, eta_s=None)
        self.open("#/job/5", made)
        self.assertEqual(self.text(".big"), "ETA not known yet")
        self.assertIn("500 steps", self.text(".head"))
        self.assertEqual(self.texts(".head .bar"), [])
        self.assertIn("Loss-", self.texts(".tile"))
        self.open("#/", made)
        row = next(row for row in self.texts(".jobs tbody tr") if "cnn-sync" in row)
        self.assertNotIn("%ETA", row)
        self.assertRegex(row, r"500 steps.*not known yetETA-")

    def test_of_staleness_only_what_was_is_named(self):
        made = sample_web.busy()
        course = made["jobs"][5]["course"]
        course["staleness"] = [[counts[0], 0, 0, 0, 0] for counts in course["staleness"]]
        self.open("#/job/5", made)
        keys = "[...document.querySelectorAll('#staleness')][0].closest('figure')"
        self.assertEqual(self.browser.run(f"{keys}.querySelector('.keys').textContent"), "0")

    def test_the_heat_map_shows_whom_the_others_wait_for(self):
        self.open("#/job/3")
        self.assertRegex(self.text(".verdict"), r"^Rank 3 \(w2\) waits least, \d+ % of its newest")
        label = self.browser.run("document.getElementById('heat').getAttribute('aria-label')")
        self.assertIn("each of 4 ranks waited. Rank 3 (w2) waits least", label)
        pixel = """(x, y) => [...document.getElementById('heat').getContext('2d')
            .getImageData(x, y, 1, 1).data]"""
        right = self.browser.run("document.getElementById('heat').width - 20")
        others, slow = (self.browser.run(f"({pixel})({right}, {20 + 24 * row})") for row in (0, 3))
        self.assertLess(others[2] + 60, slow[2], "others are hot, the slow one is not")
        self.browser.run("""document.getElementById('heat').dispatchEvent(
            new KeyboardEvent('keydown', {key: 'ArrowDown'}))""")
        self.assertRegex(self.text(".heat-cell"),
                         r"rank 0 \(w1\), step 720: waited \d+ %, \d+ samples/s")

    def test_news_change_the_page_and_leave_the_focus_where_it_is(self):
        self.open("#/")
        self.browser.run("window.kept = document.querySelector('.jobs a'); kept.focus();")
        news = SCENES["busy"]()
        news["cluster"]["jobs"][3]["progress"]["step"] = 800
        self.server.show(news)
        self.until("document.querySelector('.jobs').textContent.includes('800 of 1,170')")
        self.assertTrue(self.browser.run("document.activeElement === kept && kept.isConnected"))
        self.server.show("calm")
        self.until("document.querySelector('.stuck').textContent.includes('Nothing is stuck')")
        self.assertEqual(self.browser.complaints, [])

    def test_charts_take_what_is_new(self):
        self.open("#/job/3")
        self.browser.run("void (window.kept = charts.loss)")
        news = SCENES["busy"]()
        for name, values in news["jobs"][3]["course"].items():
            values.append(900 if name == "step" else values[-1])
        self.server.show(news)
        self.until("charts.loss.data.datasets[0].data.slice(-1)[0].x === 900")
        self.assertTrue(self.browser.run("charts.loss === kept"))

    def test_tabs_that_nobody_sees_hold_no_stream(self):
        self.open("#/")
        for hidden, streams in (("true", 0), ("false", 1)):
            self.browser.run(f"""Object.defineProperty(document, 'hidden',
                {{value: {hidden}, configurable: true}});
                document.dispatchEvent(new Event('visibilitychange'))""")
            deadline = time.monotonic() + 20
            while self.server.streams != streams:
                self.assertLess(time.monotonic(), deadline, f"{self.server.streams} streams")
                time.sleep(0.05)

    def test_a_job_is_reached_and_its_command_copied_by_the_keyboard_alone(self):
        def press(key, code, text=""):
            for kind in ("keyDown", "keyUp"):
                typed = text if kind == "keyDown" else ""
                self.browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                                  windowsVirtualKeyCode=code, text=typed)

        def tab_to(condition):
            for _ in range(60):
                press("Tab", 9)
                if self.browser.run(f"(e => {condition})(document.activeElement)"):
                    width = "getComputedStyle(document.activeElement).outlineWidth"
                    self.assertEqual(self.browser.run(width), "2px")
                    return
            self.fail(f"not reached: {condition}")

        self.open("#/")
        tab_to("e.textContent === '3  lenet'")
        press("Enter", 13, "\r")
        self.until(shown("#/job/3"))
        tab_to("e.textContent === 'copy'")
        press("Enter", 13, "\r")
        self.until("['copied', 'selected'].includes(document.querySelector('.copy').textContent)")

    def test_hostile_names_stay_text(self):
        for place in ("#/", "#/job/3", "#/compare/3/4", f"#/daemon/{LONG}"):
            self.open(place, "hostile")
            self.until(f"document.body.textContent.includes({json.dumps(HOSTILE)})")
            self.assertEqual(self.browser.run("document.querySelectorAll('b').length"), 0, place)
            self.assertEqual(self.browser.run("document.scripts.length"), 3, place)
            self.assertEqual(self.browser.complaints, [], place)
        self.open("#/", "hostile")
        self.browser.run("""[...document.querySelectorAll('.daemons a')]
            .find(a => a.textContent.startsWith('</script>')).click()""")
        self.until(f"document.querySelector('h1')?.textContent === {json.dumps(HOSTILE)}")

    def test_a_payload_in_any_name_is_shown_as_text_and_runs_nowhere(self):
        wrong = """[...document.querySelectorAll('*')].filter(e =>
            ['IMG', 'IFRAME', 'OBJECT', 'EMBED', 'BASE', 'FORM'].includes(e.tagName) ||
            [...e.attributes].some(a => a.name.startsWith('on')) ||
            e.href && !String(e.href).startsWith(location.origin)).map(e => e.outerHTML)"""
        for payload in PAYLOADS:
            told = replaced(SCENES["hostile"](), HOSTILE, payload)
            for place in ("#/", "#/job/3", "#/job/3/log", "#/compare/3/4", f"#/daemon/{LONG}"):
                with self.subTest(payload=payload, place=place):
                    self.open(place, told)
                    text = json.dumps(" ".join(payload.split()))
                    self.until("document.body.textContent.replace(/\\s+/g, ' ')"
                               f".includes({text})")  # fmt: skip
                    self.browser.run("""document.querySelectorAll('*').forEach(e => {
                        for (const kind of ['mouseover', 'focus', 'load', 'error', 'toggle'])
                            e.dispatchEvent(new Event(kind)); })""")
                    self.browser.settle()
                    self.assertEqual(self.browser.run("typeof window.ran"), "undefined")
                    self.assertEqual(self.browser.run(wrong), [])
                    self.assertEqual(self.browser.run("document.scripts.length"), 3)
                    self.assertEqual(self.browser.complaints, [])

    def test_a_lost_coordinator_is_said_and_the_last_picture_stays(self):
        self.open("#/")
        self.assertRegex(self.text("#freshness"), r"^live, \d+ s old$")
        self.assertEqual(self.text("#banner"), "")
        self.server.show("stale")
        self.until("document.getElementById('banner').textContent !== ''")
        self.assertRegex(self.text("#banner"), r"^coordinator at 10.0.0.1:7700 cannot be reached: "
                         r"Connection refused; what is shown is 4\d s old$")
        self.assertIn("3  lenet", self.text(".jobs"))
        healed = SCENES["busy"]()
        healed["cluster"]["taken_ms"] += 100
        self.server.show(healed)
        self.until("document.getElementById('freshness').textContent.startsWith('live')")
        self.assertEqual(self.text("#banner"), "")

    def test_a_dashboard_that_has_gone_is_said_and_found_again(self):
        self.open("#/")
        port = self.server.server_port
        self.server.close()
        self.until("document.getElementById('banner').textContent !== ''")
        self.assertRegex(self.text("#banner"), rf"^strata web at 127.0.0.1:{port} does not answer, "
                         r"trying again; what is shown is \d+ s old$")
        self.assertIn("3  lenet", self.text(".jobs"))
        self.server = WebServer("calm", port=port)
        self.server.__enter__()
        self.until("document.getElementById('freshness').textContent.startsWith('live')")
        self.until("document.querySelector('.stuck').textContent.includes('Nothing is stuck')")

    def test_a_link_lets_in_once_and_leaves_the_address_bar(self):
        self.server.needs_login = True
        self.open("")
        self.until("document.querySelector('h1') !== null")
        self.assertIn("This dashboard needs a link of its own", self.text("main"))
        self.assertIn("/#token=", self.text("main code"))
        self.browser.complaints.clear()  # of the 401
        self.browser.run(f"location.hash = '#token={TOKEN}'")  # as who pastes the link does
        self.until("document.querySelector('.jobs') !== null")
        self.assertEqual(self.browser.run("location.href"), f"{self.server.url}#/")
        self.assertEqual(self.browser.run("document.cookie"), "")
        self.assertEqual(self.browser.complaints, [])
        self.browser.call("Network.clearBrowserCookies")
        self.browser.open("about:blank")
        self.open(f"#token={TOKEN}")
        self.until("document.querySelector('.reason.bad') !== null")
        self.assertIn("this link was used", self.text("main"))

    def test_what_was_turned_away_as_planned_is_no_trouble(self):
        late = {"frame of a shard that has left": 1}
        daemons = [
            sample_daemons.server("s9", expected_refusals=late),
            sample_daemons.worker("a0"),
        ]
        self.open("#/", sample_web.scene(daemons, []))
        said = "turned away as planned 1: frame of a shard that has left"
        self.assertIn(said, self.text(".daemons"))
        self.assertEqual(self.texts(".daemons .open-text"), [], "nothing is amber")
        self.assertEqual(self.texts(".daemons tbody tr td:first-child a"), ["a0", "s9"])
        daemons[0].update(refusals={"malformed": 2})
        self.open("#/", sample_web.scene(daemons, []))
        self.assertEqual(self.texts(".daemons .open-text"), ["refused 2: malformed"])
        self.assertEqual(self.texts(".daemons tbody tr td:first-child a"), ["s9", "a0"])

    def test_a_thousand_daemons_are_there_soon_the_first_fifty_of_them(self):
        self.server.show("large")
        self.browser.call("Page.enable")
        timer = self.browser.call("Page.addScriptToEvaluateOnNewDocument", source="""
            const look = () => { if (document.querySelector('.daemons tbody tr'))
              window.shownAt = performance.now(); else requestAnimationFrame(look); }; look();""")
        took = []
        for _ in range(3):  # the machine may be busy
            self.open("#/", "large")
            self.until("window.shownAt !== undefined")
            took.append(self.browser.run("shownAt"))
            if took[-1] < FIRST_PAINT_MS:
                break
        self.browser.call("Page.removeScriptToEvaluateOnNewDocument", **timer)
        self.assertLess(min(took), FIRST_PAINT_MS)
        self.assertEqual(len(self.texts(".daemons tbody tr")), 50)
        self.assertEqual(len(self.texts(".jobs tbody tr")), 50)
        first = self.texts(".daemons tbody tr td:first-child a")[:2]
        self.assertEqual(first, ["w777", "w555"], "the dead and the draining one come first")
        self.click("show all 1,000 daemons")
        self.assertEqual(len(self.texts(".daemons tbody tr")), 1000)
        self.browser.run("""(() => { const box = document.querySelector('input[type=search]');
            box.value = 'w99'; box.dispatchEvent(new Event('input')); })()""")
        self.assertEqual(len(self.texts(".daemons tbody tr")), 10)  # w99 and w991 to w999

    def test_two_jobs_are_compared_over_steps_time_and_samples(self):
        self.open("#/compare/3/5")
        self.until("Boolean(charts['both-loss'])")
        ends = {}
        for name in ("steps", "time", "samples"):
            self.click(name)
            ends[name] = self.browser.run(
                "charts['both-loss'].data.datasets.map(d => Math.round(d.data.slice(-1)[0].x))")
        self.assertEqual(ends["steps"], [720, 500])
        self.assertEqual(ends["samples"], [720 * 256, 500 * 256])
        self.assertEqual(ends["time"], [47, 47])
        self.browser.run("""(() => { const select = document.querySelectorAll('select')[1];
            select.value = '2'; select.dispatchEvent(new Event('change')); })()""")
        self.until("location.hash === '#/compare/3/2'")
        self.until("document.querySelector('.compared th:last-child')?.textContent === 'job 2'")

    def test_the_page_is_small(self):
        page = self.server.page
        self.assertLessEqual(len((page.html() + page.chart_js).encode()), BYTES_MAX)

    def test_what_is_broken_is_found(self):
        footer = '<footer id="foot">'
        breakages = [
            # Fault, part, a text that it contains once, its replacement, the expected finding.
            ("a style in HTML", "frame", footer, '<footer id="foot" style="top: 0">',
             "inline style"),
            ("an inline handler", "frame", footer, f'<p onclick="go()">x</p>{footer}', "log:"),
            ("an image from outside", "frame", footer,
             f'<img alt="" src="//127.0.0.1:9/">{footer}', "log:"),
            ("an exception", "js", "\ngo();", "\ngo(); undefined.gone();", "exception:"),
            ("a complaint", "js", "\ngo();", "\ngo(); console.error('bad');", "console: bad"),
            ("a chart that is not drawn", "js", '  drawLines("speed"', '  0 && drawLines("speed"',
             "charts: 5 drawn"),
            ("a pale text", "css", "--muted: #57606a", "--muted: #bbbbbb", "contrast"),
            ("a small print", "css", ".tile small { display: block; font-size: 13px",
             ".tile .title { font-size: 9px } .tile small { top: 0",
             "smaller than 12 px"),
            ("a wide page", "css", "#banner { background: none; }", "#view { width: 1400px }",
             "wider"),
        ]  # fmt: skip
        for name, part, old, new, expected in breakages:
            with self.subTest(name):
                page = self.server.page
                whole = getattr(page, part)
                self.assertEqual(whole.count(old), 1, old)
                setattr(page, part, whole.replace(old, new))
                found = findings(self.browser, self.server, "#/job/3", 1280, "light", 6)
                setattr(page, part, whole)
                self.assertTrue(any(expected in one for one in found), found)

    @classmethod
    def write_screenshots(cls, directory):
        os.makedirs(directory, exist_ok=True)
        with Browser() as browser:
            for scene, place, _ in PAGES:
                with WebServer(scene) as server:
                    for width, scheme in VIEWS:
                        browser.show_as(width, scheme)
                        browser.open(server.url + place)
                        browser.until(shown(place))
                        parts = [scene, *place.split("/")[1:], str(width), scheme]
                        name = "-".join(filter(None, parts))
                        browser.screenshot(os.path.join(directory, f"{name}.png"))


if __name__ == "__main__":
    main(PageTest)
