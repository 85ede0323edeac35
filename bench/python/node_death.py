"""How long training stands still when one of two nodes is killed, in Strata and in torchft.

usage: node_death.py STRATA PYTHON [--torchft PYTHON] [--bytes 104857600] [--rounds 3]
                     [--modes sync,async,ring] [--heartbeats-ms 5000,1000] [--seed 1] [--json]

Two nodes of one rank and a server on this machine, a job with `replace`. The ranks compute nothing:
each step adds up gradients of --bytes. In each round the rank of node 1 dies by SIGKILL at a moment
that is drawn, and Strata begins its node again; in mode `ring` (`exchange: RING`, `on_loss: DROP`)
the other one goes on without it, in a job of each round's own. --torchft names a Python with torch
and torchft (bench/peers/torchft_death.py): then the same is measured of two replica groups over
Gloo, where this program starts the one that has died again, for torchft restarts none.

- next: from the kill to the end of the next step of the other node, or replica
- longest: the longest time between two steps' ends of the other, from the death to the return
- thrown away: steps of the other that came to nothing, for each death
- both: until a step of the other ends in which the new process takes part; Strata's from the kill,
  torchft's from the start of the new process; none in `ring`

Where nodes wait for each other (sync) the other one's next steps are of both. Verified: weights,
after each step of each rank, of which it looks at some. PYTHON has NumPy; STRATA_CLIENT_LIBRARY
names the client library. No figure is judged.
"""

import argparse
import collections
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
from cluster import fail  # noqa: E402

RANK = os.path.join(HERE, "node_death_rank.py")
TORCHFT = os.path.join(os.path.dirname(HERE), "peers", "torchft_death.py")
LIMIT_S = 120
AFTER = 10  # steps that the other one is watched for where nobody takes the place
MIB = 1 << 20
FIELDS = ("next_step_s", "longest_s", "thrown_away", "back_s")


class Stuck(Exception):
    """A fault of a job."""


class Notes:
    """The ranks' reports of their steps: (when, process, step) by rank."""

    def __init__(self):
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._socket.getsockname()[1]
        self._changed = threading.Condition()
        self._steps = collections.defaultdict(list)
        self._wrong = None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while True:
            words = self._socket.recv(100)
            now = time.monotonic()
            rank, process, step, right = map(int, words.split())
            with self._changed:
                self._steps[rank].append((now, process, step))
                self._changed.notify()
            if not right:
                self.end(f"weights of rank {rank} after step {step} are wrong")

    def end(self, why):
        """Ends all waits."""
        with self._changed:
            self._wrong = self._wrong or why
            self._changed.notify()

    def wait(self, rank, is_it, count=1):
        """The rank's steps up to the count-th one that is it."""
        def found():
            at = [place for place, step in enumerate(self._steps[rank]) if is_it(step)]
            return self._steps[rank][:at[count - 1] + 1] if len(at) >= count else None
        with self._changed:
            if not self._changed.wait_for(lambda: self._wrong or found(), LIMIT_S):
                raise Stuck(f"rank {rank} makes no step for {LIMIT_S} s")
            if self._wrong:
                raise Stuck(self._wrong)
            return found()


def await_more(notes, count):
    """Both ranks make so many more steps."""
    now = time.monotonic()
    return [notes.wait(rank, lambda step: step[0] > now, count) for rank in (0, 1)]


def one_round(notes, moment_s, returns=True):
    """`returns`: a new process takes the place of the one that dies."""
    victim = await_more(notes, 3)[1][-1][1]
    time.sleep(moment_s)
    os.kill(victim, signal.SIGKILL)
    killed = time.monotonic()
    new = None
    if returns:
        new = notes.wait(1, lambda step: step[1] != victim and step[0] > killed)[-1]
        steps = notes.wait(0, lambda step: step[0] > new[0])
    else:
        steps = notes.wait(0, lambda step: step[0] > killed, AFTER)
    around = [step for step in steps if step[0] <= killed][-1:]
    around += [step for step in steps if step[0] > killed]
    pairs = list(zip(around, around[1:]))
    return {
        "next_step_s": around[1][0] - killed,
        "longest_s": max(b[0] - a[0] for a, b in pairs),
        # Each that it makes again or leaves out.
        "thrown_away": sum(b[2] != a[2] + 1 for a, b in pairs),
        "back_s": new[0] - killed if new else None,
    }


def stop(process):
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def strata(options, mode):
    """Returns the duration of an undisturbed step, and the rounds."""
    draw = random.Random(options.seed)
    if mode != "ring":
        replace = [f"replace={{per_hour: {100 * options.rounds}}}"]
        step_s, rounds = strata_job(options, mode, draw, replace, options.rounds)
    else:
        drop = ["exchange=RING", "on_loss=DROP", "ranks_per_node=1"]
        jobs = [strata_job(options, "sync", draw, drop, 1) for _ in range(options.rounds)]
        step_s = statistics.median(one[0] for one in jobs)
        rounds = [one[1][0] for one in jobs]
    return {"name": f"Strata, {mode}", "step_s": step_s, "rounds": rounds}


def strata_job(options, mode, draw, settings, count):
    """The same of one job, which has so many rounds."""
    package = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
    path = [package, os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1",
                   "PYTHONPATH": os.pathsep.join(one for one in path if one)}
    notes = Notes()
    with tempfile.TemporaryDirectory() as scratch:
        command = [options.strata, "run", "-n", "2", "--nodes", "2", "--servers", "1", "--python",
                   options.python, "--runs", scratch, "--log-level", "warning", "--mode", mode]
        for setting in settings:
            command += ["--set", setting]
        command += [RANK, str(options.bytes // 4), notes.address, mode]
        with open(os.path.join(scratch, "output"), "w+", encoding="utf-8") as output:
            job = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
            threading.Thread(target=lambda: notes.end(f"it ended with status {job.wait()}"),
                             daemon=True).start()
            try:
                await_more(notes, 3)
                ends = [step[0] for step in await_more(notes, 12)[0][-12:]]
                step_s = statistics.median(b - a for a, b in zip(ends, ends[1:]))
                returns = "on_loss=DROP" not in settings
                rounds = [one_round(notes, draw.uniform(0, 2 * step_s), returns)
                          for _ in range(count)]
            except Stuck as stuck:
                stop(job)
                output.seek(0)
                fail(f"{mode}: {stuck}\n{output.read()}")
            finally:
                stop(job)
    return step_s, rounds


def torchft(options, heartbeat_ms):
    command = [options.torchft, TORCHFT, "--bytes", str(options.bytes), "--rounds",
               str(options.rounds), "--heartbeat-timeout-ms", str(heartbeat_ms), "--down-s", "0",
               "--seed", str(options.seed), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    if done.returncode != 0:
        fail(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    result = json.loads(done.stdout)
    name = f"torchft, heartbeats missed for {heartbeat_ms / 1000:g} s"
    return {"name": name, "step_s": result["step_s"], "rounds": result["rounds"]}


def show(options, sides):
    print(f"{options.bytes / MIB:g} MiB, {options.rounds} deaths of each; seconds, medians, least "
          f"to most\n")
    print("| | a step | next | longest | thrown away | both |")
    print("| --- | --- | --- | --- | --- | --- |")
    for side in sides:
        cells = [side["name"], f"{side['step_s']:.3f}"]
        for field in FIELDS:
            values = [one[field] for one in side["rounds"]]
            if None in values:
                cells.append("-")
                continue
            digits = 0 if field == "thrown_away" else 2
            cells.append(f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to "
                         f"{max(values):.{digits}f})")
        print(f"| {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata", type=os.path.abspath)
    parser.add_argument("python")
    parser.add_argument("--torchft", metavar="PYTHON")
    parser.add_argument("--bytes", type=int, default=100 * MIB)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--modes", default="sync,async,ring")
    parser.add_argument("--heartbeats-ms", default="5000,1000")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sides = [strata(options, mode) for mode in options.modes.split(",")]
    if options.torchft:
        sides += [torchft(options, int(one)) for one in options.heartbeats_ms.split(",")]
    if options.json:
        print(json.dumps({"bytes": options.bytes, "cores": os.cpu_count(), "sides": sides}))
    else:
        show(options, sides)


if __name__ == "__main__":
    main()
