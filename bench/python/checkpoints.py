"""What checkpoints cost a job, how fast they are written, and how soon a job goes on from one.

usage: checkpoints.py STRATA PYTHON [--bytes 1GiB] [--steps 400] [--every 40] [--pairs 3]
                      [--dir DIR] [--no-goals] [--json]

One rank and one server on this machine, Adam on the server, gradients that never change. The job
trains with a checkpoint every so many steps, and once without. Prints

- cost: the seconds that a checkpoint adds to the steps near it, as a share of 100 steps that none
  is near; goal 0.01. It is the mean over the second half of the run: the first ones also take the
  memory that later ones use again, and are told of by themselves,
- rate: a checkpoint's bytes over the time from its last step to its manifest, as a share of what
  one process writes to the same folder past the page cache in pieces of 8 MiB, with one fsync;
  goal 0.9,
- resume: the time from the command to the end of the first step of a job that goes on, over that of
  a job that begins anew and the time in which one process reads so many bytes past the page cache;
  goal 1.2. In pairs, of which the median counts.

Verified: the job with checkpoints ends with the bits of the one without, and so does the job that
goes on. PYTHON has NumPy; STRATA_CLIENT_LIBRARY names the client library. DIR (default: a temporary
folder) is where checkpoints go; its file system has O_DIRECT. Exits 1 where a goal is missed.
"""

import argparse
import glob
import json
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
from cluster import fail  # noqa: E402

RANK = os.path.join(HERE, "checkpoints_rank.py")
PIECE = 8 << 20
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def bytes_of(text):
    unit = text[-3:]
    return int(float(text[:-3]) * UNITS[unit]) if unit in UNITS else int(text)


class Bench:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch
        self.runs = 0
        package = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
        path = [package, os.environ.get("PYTHONPATH", "")]
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(one for one in path if one),
            "OMP_NUM_THREADS": "1",
        }

    def go_on(self, steps, folder):
        """Goes on from a folder's newest checkpoint and writes its own elsewhere."""
        return self.train(steps, os.path.join(self.scratch, f"more-{self.runs}"), folder)

    def train(self, steps, folder="", resume="", sum_at=""):
        """Returns what the rank has noted, with the time at which the command began."""
        self.runs += 1
        out = os.path.join(self.scratch, f"rank-{self.runs}.json")
        command = [self.options.strata, "run", "-n", "1", "--python", self.options.python]
        command += ["--runs", os.path.join(self.scratch, f"runs-{self.runs}")]
        command += ["--log-level", "warning", "--mode", "sync"]
        command += ["--set", "exchange=PARAMETER_SERVER"]
        if folder:
            checkpoint = f'checkpoint={{dir: "{folder}" every_steps: {self.options.every} keep: 1}}'
            command += ["--set", checkpoint]
        if resume:
            command += ["--resume", resume]
        command += [RANK, str(self.options.bytes // 4), str(steps), out]
        command += [str(sum_at)] if sum_at else []
        begin = time.time()
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            fail(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
        with open(out, encoding="utf-8") as noted:
            return {**json.load(noted), "begin": begin}


def through(path, flags, count):
    """Returns the bytes a second of one process that writes or reads so many of a file, past the
    page cache."""
    piece = mmap.mmap(-1, PIECE)  # aligned
    piece.write(os.urandom(PIECE))
    begin = time.time()
    file = os.open(path, flags | os.O_DIRECT, 0o600)
    move = os.readv if flags == os.O_RDONLY else os.writev
    for _ in range(0, count, PIECE):
        move(file, [piece])
    os.fsync(file)
    os.close(file)
    return count / (time.time() - begin)


def write_alone(folder, count):
    path = os.path.join(folder, "alone")
    rate = through(path, os.O_WRONLY | os.O_CREAT, count)
    os.remove(path)
    return rate


def newest(folder):
    """Returns the newest manifest, its clock, the bytes of its checkpoint, and the largest of its
    files. A checkpoint is left out while the one before is not written yet, so tiny steps may end
    with an older one."""
    manifest = max(glob.glob(os.path.join(folder, "clock-*", "manifest.json")))
    home = os.path.dirname(manifest)
    parts = glob.glob(os.path.join(home, "*"))
    largest = max(parts, key=os.path.getsize)
    clock = int(os.path.basename(home).removeprefix("clock-"))
    return manifest, clock, sum(os.path.getsize(part) for part in parts), largest


def cost_of(noted, every):
    """Returns the time of a step that no checkpoint is near, and the seconds that each adds."""
    times = [noted["ready"]] + noted["steps"]
    took = [end - begin for begin, end in zip(times, times[1:])]  # by step, from 0 on
    near = every // 2  # steps, from the one that makes it on
    cuts = range(every - 1, len(took) - near + 1, every)
    quiet = statistics.mean(t for step, t in enumerate(took[cuts[len(cuts) // 2]:], 1)
                            if (step - 1) % every >= near)
    return quiet, [sum(took[cut:cut + near]) - near * quiet for cut in cuts]


def resume_pair(bench, options, folder, note):
    """Returns the time to a first step's end of a job that goes on, and its bound."""
    anew = bench.train(1)
    _, clock, count, largest = newest(folder)
    read = through(largest, os.O_RDONLY, os.path.getsize(largest))
    rest = bench.go_on(options.steps + 1, folder)
    if rest["first"] != clock:
        fail(f"went on from step {rest['first']}, not from {clock}")
    bound = anew["steps"][0] - anew["begin"] + count / read
    took = rest["steps"][0] - rest["begin"]
    note(f"going on {took:.1f} s, bound {bound:.1f} s, of which reading {count / read:.1f} s")
    return took, bound


def measure(bench, options, folder):
    def note(text):
        if not options.json:
            print(text, flush=True)

    os.makedirs(folder)
    without = bench.train(options.steps + 10, sum_at=options.steps)
    kept = bench.train(options.steps, folder)
    if kept["sums"][str(options.steps)] != without["sums"][str(options.steps)]:
        fail("the job ended with other weights than without checkpoints")
    quiet, added = cost_of(kept, options.every)
    plain, _ = cost_of({**without, "steps": without["steps"][:options.steps]}, options.every)
    cost = statistics.mean(added[len(added) // 2:]) / (100 * quiet)
    manifest, clock, count, _ = newest(folder)
    seconds = os.path.getmtime(manifest) - kept["steps"][clock - 1]
    if seconds < -CLOCK_GRAIN_S:
        fail(f"the checkpoint of step {clock} was whole {-seconds:.3f} s before that step ended")
    seconds = max(seconds, CLOCK_GRAIN_S)
    alone = statistics.median(write_alone(folder, count) for _ in range(3))
    note(f"step {plain:.4f} s without checkpoints, {quiet:.4f} s between them; "
         f"they added {', '.join(f'{one:.2f}' for one in added)} s")
    note(f"{count / 1e9:.2f} GB in {seconds:.2f} s, one writer alone in {count / alone:.2f} s")
    rest = bench.go_on(options.steps + 10, folder)
    last = str(options.steps + 10)
    if rest["sums"][last] != without["sums"][last] or rest["first"] != clock:
        fail(f"went on from step {rest['first']} and ended with other weights")
    pairs = [resume_pair(bench, options, folder, note) for _ in range(options.pairs)]
    return {"cost": cost, "rate": count / seconds / alone,
            "resume": statistics.median(took / bound for took, bound in pairs),
            "resume_s": pairs, "step_s": plain, "added_s": added,
            "bytes": count, "write_s": seconds, "write_alone_s": count / alone, "goals": GOALS,
            "cores": os.cpu_count()}


CLOCK_GRAIN_S = 0.004  # of the clock that gives files their times
GOALS = {"cost": 0.01, "rate": 0.9, "resume": 1.2}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("python")
    parser.add_argument("--bytes", type=bytes_of, default=1 << 30)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--dir")
    parser.add_argument("--no-goals", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.steps % options.every != 0 or options.steps < 4 * options.every:
        fail(f"--steps: {options.steps} is not 4 or more times --every {options.every}")
    with tempfile.TemporaryDirectory(dir=options.dir) as scratch:
        result = measure(Bench(options, scratch), options, os.path.join(scratch, "kept"))
    missed = [name for name, goal in GOALS.items()
              if (result[name] < goal if name == "rate" else result[name] > goal)]
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        print(f"{result['bytes'] / 1e9:.2f} GB, {os.cpu_count()} cores: "
              f"cost {result['cost']:.4f} (goal 0.01), "
              f"rate {result['rate']:.2f} of one writer's (goal 0.9), "
              f"resume {result['resume']:.2f} of its bound (goal 1.2); weights equal, bit for bit")
    if missed and not options.no_goals:
        sys.exit(f"checkpoints: missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
