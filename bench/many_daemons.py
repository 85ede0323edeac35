"""What `strata web` takes to show a cluster of very many daemons.

usage: many_daemons.py STRATA STRATA_LOAD [--daemons 1000, 1023 at most] [--jobs 100] [--rounds 20]

STRATA_LOAD is //tests/e2e:strata_load, which plays so many workers, with a session each, beside a
real coordinator and server. --jobs jobs are submitted, which stay in the queue. Printed are: the
milliseconds that GET /metrics takes, with its bytes and series; and the seconds until a headless
Chromium has painted the page, and until it shows the cluster.
"""

import argparse
import http.client
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))

sys.path.insert(0, os.path.join(HERE, "../compare/report"))
from browser import Browser  # noqa: E402
from cluster import Cluster, fail  # noqa: E402

JOB = """
name: "job%d"
model { zoo: "lenet5" }
data { synthetic { train_samples: 1024 test_samples: 64 } batch_per_rank: 1 }
ranks: 1024  # more than there are slots
epochs: 1
"""


class Played:
    """The cluster that STRATA_LOAD plays; its coordinator and keys. A context manager."""

    def __init__(self, program, strata, daemons, folder):
        self.program = program
        self.process = subprocess.Popen(
            [program, "--strata", strata, "--dir", os.path.join(folder, "load"), "--nodes",
             str(daemons), "--servers", "1", "--idle"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if line.startswith("ready "):
                self.told = dict(word.split("=", 1) for word in line.split() if "=" in word)
                return
        fail(f"{program} has ended with {self.process.wait()}")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.stdin.close()
        try:
            status = self.process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        if kind is None and status != 0:
            fail(f"{self.program} has ended with {status}")


def scrape(port):
    """Returns how many milliseconds it takes, and the text."""
    begin = time.monotonic()
    line = http.client.HTTPConnection("127.0.0.1", port)
    line.request("GET", "/metrics")
    answer = line.getresponse()
    text = answer.read().decode()
    if answer.status != 200 or not text.endswith("# EOF\n"):
        fail(f"/metrics answers {answer.status} with {text[-200:]!r}")
    line.close()
    return (time.monotonic() - begin) * 1000, text


def paint(url):
    """Returns the seconds until the page's first paint, and until it shows the cluster."""
    with Browser() as browser:
        browser.show_as(1280, "light")
        browser.open("about:blank")
        begin = time.time()
        browser.open(url + "#/")
        browser.until("document.body.dataset.shown === '#/'", 60)
        shown = time.time() - begin
        painted = browser.run("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return painted / 1000, shown


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("strata_load")
    parser.add_argument("--daemons", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    if options.daemons > 1023:
        parser.error(f"--daemons {options.daemons}: jobs would find slots, and run")
    with (tempfile.TemporaryDirectory(dir="/tmp") as folder,
          Played(options.strata_load, options.strata, options.daemons, folder) as played,
          Cluster(options.strata, folder) as cluster):
        cluster.address, cluster.keys = played.told["coordinator"], ["--keys", played.told["keys"]]
        for job in range(options.jobs):
            cluster.submit(f"job{job}", JOB % job)
        _, ready = cluster.start("web", "--coordinator", cluster.address, *cluster.keys,
                                 "--listen", "127.0.0.1:0", "--no-login", "--log-level", "error")
        port = urllib.parse.urlparse(ready["url"]).port
        first_ms, _ = scrape(port)
        scrapes = [scrape(port) for _ in range(options.rounds)]
        paints = [paint(ready["url"]) for _ in range(5)]
    text = scrapes[-1][1]
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    seen = sum(line.startswith("strata_job_state{") and line.endswith(" 1") for line in lines)
    if seen != options.jobs:
        fail(f"/metrics names {seen} jobs, not {options.jobs}")
    took = [ms for ms, _ in scrapes]
    print(f"{options.daemons} daemons, {options.jobs} jobs: GET /metrics takes "
          f"{statistics.median(took):.0f} ms ({min(took):.0f} to {max(took):.0f}; the first "
          f"{first_ms:.0f}), {len(text)} bytes, {len(lines)} series")
    for name, times in zip(("the page is painted", "the cluster is shown"), zip(*paints)):
        print(f"{name} after {statistics.median(times):.2f} s ({min(times):.2f} to "
              f"{max(times):.2f})")


if __name__ == "__main__":
    main()
