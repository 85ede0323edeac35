"""A headless Chromium, led through the DevTools protocol over a pipe: no port, no network."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

DEADLINE_S = 120
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    # A server of the test's own is reached by its address.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
]
# Bash: the pipe's ends have to be descriptors 3 and 4.
START = 'in=$1; out=$2; shift 2; exec "$@" 3<&"$in" 4>&"$out"'


# Checks that every page must pass, run in the page itself; the file is beside this one.
CHECKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page_checks.js")


class BrowserError(Exception):
    """The browser is not there, has gone, or does not answer; or the page threw."""


def _high(descriptor):
    """The same pipe end well above 3 and 4."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


def _url(path):
    return path if "://" in path or path == "about:blank" else "file://" + os.path.abspath(path)


class Browser:
    """One page, with all that it complains of and asks for. A context manager."""

    def __init__(self):
        program = shutil.which("chromium")
        if program is None:
            raise BrowserError("no chromium on the PATH (deploy/install_packages.sh --tests)")
        self._dir = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read_commands, write_commands = map(_high, os.pipe())
        read_events, write_events = map(_high, os.pipe())
        self._out, self._in = write_commands, read_events
        command = ["bash", "-c", START, "bash", str(read_commands), str(write_events), program]
        command += FLAGS + [f"--user-data-dir={self._dir.name}/profile", "about:blank"]
        self._process = subprocess.Popen(
            command,
            pass_fds=(read_commands, write_events),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self._dir.name},
        )
        os.close(read_commands)
        os.close(write_events)
        self._unread, self._next_id, self._session = b"", 1, None
        self.complaints, self.requests, self._events = [], [], []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self._session = None
            self.call("Browser.close")
            self._process.wait(timeout=20)
        except (BrowserError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._dir.cleanup()

    def call(self, method, **params):
        """Returns the browser's answer to one command."""
        message = {"id": self._next_id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._next_id += 1
        try:
            os.write(self._out, json.dumps(message).encode() + b"\0")
        except BrokenPipeError as error:
            raise BrowserError("chromium has gone") from error
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = self._message(deadline)
            if answer.get("id") != message["id"]:
                self._take(answer)
            elif "error" in answer:
                raise BrowserError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def open(self, path):
        """A file, or a URL."""
        # First nothing: it may be another place of the page that is there, whose last complaints
        # may still be on their way.
        self._load("about:blank")
        self._load(_url(path))
        self.settle()

    def _load(self, url):
        self._events.clear()
        self.complaints.clear()
        self.requests.clear()
        answer = self.call("Page.navigate", url=url)
        if "errorText" in answer:
            raise BrowserError(f"{url}: {answer['errorText']}")
        deadline = time.monotonic() + DEADLINE_S
        while "Page.loadEventFired" not in self._events:
            self._take(self._message(deadline))

    def show_as(self, width, scheme, height=900):
        """Viewport of that width in CSS pixels; scheme: "light" or "dark"."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def settle(self):
        """Until two frames have been drawn, and what observers of sizes do is done."""
        self.run("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))")

    def until(self, condition, seconds=20):
        """Until an expression is true in the page."""
        deadline = time.monotonic() + seconds
        while not self.run(condition):
            if time.monotonic() > deadline:
                raise BrowserError(f"not so within {seconds} s: {condition}")
            time.sleep(0.03)
        self.settle()

    def inspect(self, path, width, scheme, charts, ready="true"):
        """Opens a page with CHECKS in it; what is wrong before anything is looked at, where so many
        charts are to be drawn, once `ready` is true there. It may ask for what lies where it
        lies."""
        self.show_as(width, scheme)
        self.open(path)
        self.until(ready)
        with open(CHECKS, encoding="utf-8") as file:
            self.run(file.read())
        found = list(self.complaints)
        own = "/".join(_url(path).split("/")[:3]) + "/"
        found += [f"asks for {url[:100]}" for url in self.requests if not url.startswith(own)]
        drawn = self.run("document.body.dataset.charts")
        if drawn != f"{charts} drawn":
            found.append(f"charts: {drawn}")
        return found

    def unreadable(self):
        """Returns the parts of the inspected page that cannot be read or are misplaced."""
        found = []
        if self.run("checks.overflow()") > 0:
            found.append(f"page is {self.run('checks.overflow()')} px wider than the window")
        found += [f"sticks out: {text}" for text in self.run("checks.sticksOut()")]
        found += [f"runs into the next cell: {text}" for text in self.run("checks.spills()")]
        found += [f"smaller than 12 px: {text}" for text in self.run("checks.small()")]
        found += [f"contrast {ratio:.1f}: {text}" for ratio, text in self.run("checks.pale()")]
        return found

    def run(self, script):
        """The value of an expression, or of its promise."""
        result = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            thrown = details.get("exception", {}).get("description", details["text"])
            raise BrowserError(f"the page threw: {thrown}")
        return result["result"].get("value")

    def screenshot(self, path):
        """Takes a screenshot of the whole page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def _message(self, deadline):
        while b"\0" not in self._unread:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._in], [], [], max(left, 0))
            if not ready:
                raise BrowserError(f"chromium did not answer within {DEADLINE_S} s")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise BrowserError(f"chromium has gone (exit status {self._process.poll()})")
            self._unread += part
        message, self._unread = self._unread.split(b"\0", 1)
        return json.loads(message)

    def _take(self, event):
        method, params = event.get("method"), event.get("params", {})
        self._events.append(method)
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            thrown = details.get("exception", {}).get("description", details["text"])
            self.complaints.append(f"exception: {thrown}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            said = " ".join(str(arg.get("value", "")) for arg in params["args"])
            self.complaints.append(f"console: {said}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"log: {params['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
