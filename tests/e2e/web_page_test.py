"""The page of `strata web` in headless Chromium, beside a cluster of real processes."""

import json
import os
import signal
import sys
import unittest

sys.path.insert(0, "tests/e2e")
sys.path.insert(0, "compare/report")
from browser import Browser  # noqa: E402
from web_cluster import NAMED_WITHIN_S, Daemon, WebCluster  # noqa: E402

VIEWS = [(width, scheme) for width in (1280, 400) for scheme in ("light", "dark")]
SCREENSHOTS = os.environ.get("STRATA_SCREENSHOTS")  # a folder
# A job's or daemon's description comes before.
STUCK = "[...document.querySelectorAll('#view section')].slice(0, 2).map(e => e.textContent).join()"


class WebPageTest(WebCluster):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = Browser()
        cls.browser.__enter__()
        cls.addClassCleanup(cls.browser.__exit__, None, None, None)
        cls.url = cls.open.field("url")

    def look(self, place, width, scheme, charts, url=None):
        """All that is wrong with a place."""
        shown = f"document.body.dataset.shown === {json.dumps(place)}"
        found = self.browser.inspect((url or self.url) + place, width, scheme, charts, shown)
        if SCREENSHOTS:
            name = place.strip("#/").replace("/", "-") or "cluster"
            self.browser.screenshot(f"{SCREENSHOTS}/live-{name}-{width}-{scheme}.png")
        return found + self.browser.unreadable() + self.browser.complaints

    def stop_rank(self):
        pid = self.rank_pids()[1]
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)

    def test_a_rank_that_is_stopped_is_the_first_thing_that_every_view_shows(self):
        self.browser.show_as(1280, "light")
        self.browser.open(self.url + "#/")
        self.browser.until("document.body.dataset.shown === '#/'")
        self.stop_rank()
        # By itself: nothing is loaded anew.
        self.browser.until(f"{STUCK}.includes('rank 1')", NAMED_WITHIN_S)
        for width, scheme in VIEWS:
            for place, charts in (("#/", 0), ("#/job/1", 6), ("#/daemon/w1", 0)):
                with self.subTest(f"{place} {width} {scheme}"):
                    self.assertEqual(self.look(place, width, scheme, charts), [])
                    self.assertIn("rank 1", self.browser.run(STUCK))

    def test_the_link_opens_it_and_is_gone_from_the_address(self):
        web = Daemon("web", "--coordinator", self.address, "--listen", "127.0.0.1:0")
        self.addCleanup(web.end)
        self.browser.open(web.field("url"))
        self.browser.until("document.body.dataset.shown === '#/'")
        self.assertNotIn("token", self.browser.run("location.href"))
        self.assertIn("watched", self.browser.run("document.body.textContent"))
        self.assertEqual(self.browser.run("document.cookie"), "")

    def test_a_ranks_log_grows_on_the_page(self):
        web = Daemon("web", "--coordinator", self.address, "--listen", "127.0.0.1:0")
        self.addCleanup(web.end)
        self.say(1, "epoch 1")
        self.browser.show_as(1280, "light")
        self.browser.open(web.field("url"))
        self.browser.until("document.body.dataset.shown === '#/'")
        place, url = "#/job/1/log/rank/1", web.field("url").split("#")[0]
        self.browser.run(f"location.hash = '{place}'")
        log = "document.getElementById('log')?.textContent"
        self.browser.until(f"{log}?.includes('epoch 1')", 60)
        self.say(0, "not of this rank")
        self.say(1, "epoch \x1b[31m2\x1b[0m")
        self.browser.until(f"{log}?.includes('epoch 2')", 60)
        self.assertNotIn("not of this rank", self.browser.run(log))
        for width, scheme in VIEWS:
            self.assertEqual(self.look(place, width, scheme, 6, url), [], f"{width} {scheme}")
        # Where everybody may look there is none.
        self.browser.open(self.url + place)
        self.browser.until("document.querySelector('.logs')?.textContent.includes('web --logs')")
        self.assertFalse(self.browser.run("document.getElementById('log') !== null"))

    def test_without_a_coordinator_it_says_so_and_shows_what_was(self):
        self.browser.show_as(1280, "light")
        self.browser.open(self.url + "#/")
        self.browser.until("document.body.dataset.shown === '#/'")
        self.coordinator.end(signal.SIGKILL)
        try:
            banner = "document.getElementById('banner').textContent"
            self.browser.until(f"{banner}.includes('cannot be reached')", 60)
            self.assertIn("watched", self.browser.run("document.body.textContent"))
        finally:
            type(self).coordinator = self.start_coordinator()
        self.browser.until(f"{banner} === ''", 60)

    def test_two_jobs_lie_over_each_other(self):
        self.submit("other")
        self.await_json(self.reader(), "/api/cluster", lambda seen: len(seen["jobs"]) > 1)
        for job in (1, 2):
            self.await_json(self.reader(), f"/api/jobs/{job}",
                            lambda seen: len(seen["course"]["step"]) > 3)
        for width, scheme in VIEWS:
            found = self.look("#/compare/1/2", width, scheme, 3)
            self.assertEqual(found, [], f"{width} {scheme}")
            for chart in ("both-loss", "both-speed"):
                points = self.browser.run(
                    f"charts['{chart}'].data.datasets.map(set => [set.label, set.data.length > 3])")
                self.assertEqual(points, [["1  watched", True], ["2  other", True]], chart)


if __name__ == "__main__":
    unittest.main(verbosity=2)
