"""The page as `strata web` serves it, with made-up data: the same policy, cookies and streams."""

import ast
import base64
import hashlib
import http.server
import json
import os
import re
import sys
import threading
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from sample_web import SCENES  # noqa: E402

FOLDER = "cli/web"
PALETTE = "compare/report/palette.h"
# As Bazel has it beside the tests, and where it comes from.
CHART_JS = ["../chart_js/chart.min.js", "external/chart_js/chart.min.js",
            "/usr/share/javascript/chart.js/chart.min.js"]  # fmt: skip
TOKEN = "a-token-of-the-tests"
COOKIE = "strata_web=a-session-of-the-tests"


def _read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def _parts():
    """List of BUILD -> its files joined."""
    found = {}
    for line in ast.parse(_read(f"{FOLDER}/BUILD")).body:
        if isinstance(line, ast.Assign) and line.targets[0].id.startswith("WEB_"):
            labels = ast.literal_eval(line.value)
            paths = [label[2:].replace(":", "/") if label.startswith("//") else f"{FOLDER}/{label}"
                     for label in labels]  # fmt: skip
            found[line.targets[0].id] = "".join(map(_read, paths))
    return found


def _palette():
    """As compare/report/report_files.cc writes it."""
    text = _read(PALETTE)
    colours = re.findall(r'\{"(#\w+)", "(#\w+)"\}', text)
    dashes = re.search(r"kDashes = \{(.*?)\}", text).group(1)
    lengths = [[int(one) for one in dash.split(",") if one.strip()]
               for dash in re.findall(r'"([^"]*)"', dashes)]  # fmt: skip
    light, dark = zip(*colours)
    return json.dumps({"light": light, "dark": dark, "dashes": lengths})


class Page:
    """Returns the content of / and /chart.js."""

    def __init__(self):
        parts = _parts()
        self.css, self.js = parts["WEB_CSS"], parts["WEB_JS"]
        self.frame = _read(f"{FOLDER}/web.html")
        self.palette = _palette()
        self.chart_js = _read(next(path for path in CHART_JS if os.path.exists(path)))

    def html(self):
        html = self.frame
        for place, text in (("style", self.css), ("palette", self.palette), ("page_js", self.js)):
            html = html.replace("{{%s}}" % place, text)
        return html

    def policy(self):
        def digest(text):
            return "'sha256-%s'" % base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

        return "; ".join([
            "default-src 'none'", f"script-src 'self' {digest(self.js)}",
            f"style-src {digest(self.css)}", "connect-src 'self'", "frame-ancestors 'none'",
            "base-uri 'none'", "form-action 'none'",
        ])  # fmt: skip


class WebServer(http.server.ThreadingHTTPServer):
    """At a port of its own of 127.0.0.1; `scene` may change at any time. A context manager."""

    daemon_threads = True

    def __init__(self, scene="busy", needs_login=False, port=0):
        super().__init__(("127.0.0.1", port), _Handler)
        self.page = Page()
        self.needs_login = needs_login
        self.is_used = False  # the token
        self.changed = threading.Condition()
        self.version = 0
        self.streams = 0  # that are open
        self.show(scene)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,))

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/"

    def show(self, scene):
        """A name of SCENES, or what such a function made."""
        with self.changed:
            self.scene = SCENES[scene]() if isinstance(scene, str) else scene
            self.version += 1
            self.changed.notify_all()

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a page that has been left
            super().handle_error(request, client_address)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Like a process that ends: streams end, too."""
        if self.version is None:
            return
        with self.changed:
            self.version = None
            self.changed.notify_all()
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def _answer(self, status, kind, text, **headers):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", self.server.page.policy())
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cache-Control", "no-store")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def _json(self, status, json_value):
        self._answer(status, "application/json", json.dumps(json_value))

    def do_POST(self):
        token = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.path != "/login":
            self._answer(405, "text/plain", "GET only")
        elif token != TOKEN or self.server.is_used:
            self._answer(401, "text/plain", "this link was used, or is of another strata web")
        else:
            self.server.is_used = True
            cookie = f"{COOKIE}; HttpOnly; SameSite=Strict; Path=/"
            self._answer(200, "text/plain", "", Set_Cookie=cookie)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        page, jobs = self.server.page, self.server.scene["jobs"]
        if path == "/":
            self._answer(200, "text/html; charset=utf-8", page.html())
        elif path == "/chart.js":
            self._answer(200, "text/javascript; charset=utf-8", page.chart_js)
        elif self.server.needs_login and self.headers.get("Cookie") != COOKIE:
            self._json(401, {"error": "no session: open the link that strata web prints"})
        elif path == "/api/cluster":
            self._json(200, self.server.scene["cluster"])
        elif path.startswith("/api/jobs/"):
            job_id = int(path.rpartition("/")[2])
            missing = {"error": f"there is no job {job_id}"}
            self._json(200, jobs[job_id]) if job_id in jobs else self._json(404, missing)
        elif path == "/api/events":
            wanted = urllib.parse.parse_qs(query)
            self._stream([int(one) for one in wanted.get("job", [])], wanted.get("log", []))
        else:
            self._answer(404, "text/plain", "not found")

    def _stream(self, ids, logs):
        with self.server.changed:
            self.server.streams += 1
        self._write_stream(ids, logs)
        with self.server.changed:
            self.server.streams -= 1

    def _write_stream(self, ids, logs):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        told = -1
        while self.server.version is not None:
            with self.server.changed:
                if told == self.server.version:
                    self.server.changed.wait(1)
                is_new = told != self.server.version
                told, scene = self.server.version, self.server.scene
            if told is None:
                return
            events = [("cluster", scene["cluster"])]
            events += [("job", scene["jobs"][one]) for one in ids if one in scene["jobs"]]
            known = scene.get("logs", {}) if is_new else {}  # a log is sent once for each scene
            events += [("log", known[one]) for one in logs if one in known]
            try:
                for name, value in events:
                    text = f"event: {name}\ndata: {json.dumps(value)}\n\n"
                    self.wfile.write(text.encode())
                self.wfile.flush()
            except OSError:
                return


def main():
    """web_server.py [SCENE [PORT]]: to look at in a browser, from the top of the project."""
    scene, port = (sys.argv[1:] + ["busy", "8266"][len(sys.argv) - 1 :])[:2]
    with WebServer(scene, port=int(port)) as server:
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
