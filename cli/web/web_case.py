"""Shared by tests of the dashboard: its places, and a browser that opens them."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.abspath("compare/report"))
sys.path.insert(0, os.path.abspath("cli/web"))
from browser import Browser  # noqa: E402
from sample_web import LONG  # noqa: E402
from web_server import WebServer  # noqa: E402

# (scene, place, charts that are drawn there)
PAGES = [
    ("busy", "#/", 0),
    ("calm", "#/", 0),
    ("empty", "#/", 0),
    ("stale", "#/", 0),
    ("never", "#/", 0),
    ("large", "#/", 0),
    ("hostile", "#/", 0),
    ("busy", "#/job/3", 6),
    ("busy", "#/job/2", 6),
    ("busy", "#/job/4", 6),
    ("busy", "#/job/6", 0),
    ("busy", "#/job/1", 5),  # nothing is pushed there
    ("busy", "#/job/77", 0),
    ("busy", "#/job/3/log", 6),
    ("busy", "#/job/3/log/rank/2", 6),
    ("busy", "#/job/2/log", 6),
    ("large", "#/job/100", 6),
    ("hostile", "#/job/3", 6),
    ("hostile", "#/job/3/log", 6),
    ("hostile", "#/job/4", 6),
    ("busy", "#/daemon/w2", 0),
    ("busy", "#/daemon/w4", 0),
    ("hostile", f"#/daemon/{LONG}", 0),
    ("busy", "#/compare/3/5", 3),
    ("hostile", "#/compare/3/4", 3),
    ("empty", "#/compare", 0),
    ("never", "#/job/3", 0),
    ("not_finite", "#/", 0),
    ("not_finite", "#/job/4", 6),
    ("not_finite", "#/compare/4/3", 3),
]
OPEN_DETAILS = "document.querySelectorAll('details').forEach(d => { d.open = true; })"


def shown(place):
    """A condition that is true in the page once a place is complete."""
    return f"document.body.dataset.shown === {json.dumps(place)}"


def findings(browser, server, place, width, scheme, charts):
    """All that is wrong with a place of the page, seen so."""
    found = browser.inspect(server.url + place, width, scheme, charts, shown(place))
    browser.run(OPEN_DETAILS)
    browser.settle()
    return found + browser.unreadable() + browser.complaints


class WebCase(unittest.TestCase):
    """A browser, and a server whose scene a test may change."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.browser.__enter__()
        cls.addClassCleanup(cls.browser.__exit__, None, None, None)

    def setUp(self):
        self.server = WebServer("busy")
        self.server.__enter__()
        self.addCleanup(lambda: self.server.close())

    def open(self, place, scene="busy", width=1280, scheme="light"):
        self.server.show(scene)
        self.browser.show_as(width, scheme)
        self.browser.open(self.server.url + place)
        self.until(shown(place) if place.startswith("#/") else "'shown' in document.body.dataset")

    def until(self, condition):
        self.browser.until(condition)

    def texts(self, selector):
        script = f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)"
        return self.browser.run(script)

    def text(self, selector="body"):
        return " ".join(self.texts(selector))

    def click(self, text):
        self.browser.run(f"""[...document.querySelectorAll('button')]
            .find(b => b.textContent === {json.dumps(text)}).click()""")
        self.browser.settle()
