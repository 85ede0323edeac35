"""A job's reports of its weights while it trains with `debug.hash_weights`."""

import os
import threading
import time

LOOK_S = 0.01


class Course:
    """Reads what the job writes of its weights while it trains: `STEP HASH` for each step and node.

    A file that a node's process begins again is read from its start.
    """

    def __init__(self, run_dir, nodes):
        self._paths = [os.path.join(run_dir, f"weights.node-{node}.hashes")
                       for node in range(nodes)]
        self._offsets, self._rest = [0] * nodes, [""] * nodes
        self._lock = threading.Lock()
        self._newest = [-1] * nodes
        self._hashes = {}  # step: the hashes that nodes have written for it
        self._progress = []  # (when, steps that all nodes have ended)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self):
        while not self._over.wait(LOOK_S):
            self._read_all()

    def _read_all(self):
        with self._lock:
            for node in range(len(self._paths)):
                self._read(node)
            least = min(self._newest)
            if least > 0 and (not self._progress or least > self._progress[-1][1]):
                self._progress.append((time.monotonic(), least))

    def _read(self, node):
        try:
            with open(self._paths[node], encoding="utf-8") as file:
                if os.fstat(file.fileno()).st_size < self._offsets[node]:
                    self._offsets[node], self._rest[node] = 0, ""
                file.seek(self._offsets[node])
                text = file.read()
        except FileNotFoundError:
            return
        self._offsets[node] += len(text)
        lines = (self._rest[node] + text).split("\n")
        self._rest[node] = lines.pop()
        for line in lines:
            step, value = line.split()
            self._hashes.setdefault(step, set()).add(value)
            number = self._newest[node] + 1 if step == "final" else int(step)
            self._newest[node] = max(self._newest[node], number)

    def end(self):
        """Returns the hashes by step, once nothing more is written."""
        self._over.set()
        self._thread.join()
        self._read_all()
        return self._hashes

    def steps(self):
        with self._lock:
            return self._progress[-1][1] if self._progress else 0

    def ended(self, since):
        """When steps ended, at `since` or later, with the last one before it."""
        with self._lock:
            times = [when for when, _ in self._progress]
        before = [when for when in times if when < since][-1:]
        return before + [when for when in times if when >= since]

    def longest_without(self, since, until, steps):
        """Seconds without a step's end, of the longest such time within these moments; none after
        the last one of `steps`.
        """
        times = [max(when, since) for when in self.ended(since) if when <= until]
        if self.steps() < steps or not times:
            times.append(until)
        return max((b - a for a, b in zip(times, times[1:])), default=0)


def differences(hashes, expected, final):
    """Returns what is wrong with the weights; empty: nothing."""
    for step in sorted(hashes, key=lambda step: int(step) if step != "final" else 1 << 60):
        if hashes[step] != expected.get(step):
            return [f"the weights of step {step} are others than undisturbed: "
                    f"{hashes[step]}, not {expected.get(step)}"]
    if final and "final" not in hashes:
        return ["no node has written the hash of the final weights"]
    return []
