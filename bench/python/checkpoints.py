"""What checkpoints cost a job, how fast they are written, and how soon a job goes on from one.

usage: checkpoints.py STRATA PYTHON [--bytes 1GiB] [--steps 200] [--every 100] [--pairs 1]
                      [--dir DIR] [--no-goals] [--json]

One rank and one server on this machine, Adam on the server, gradients that never change. In turn
the job trains without checkpoints and with one every so many steps. Prints

- cost: a step's mean time with checkpoints over that without, less 1; goal 0.01,
- rate: a checkpoint's bytes over the time from its last step to its manifest, as a share of what
  one process writes to the same folder in pieces of 8 MiB with one fsync; goal 0.9,
- resume: the time from the command to the first step of a job that goes on, over that of a job
  that begins anew and the time to read so many bytes; goal 1.2.

Verified: the job that goes on ends with the bits of one that was not interrupted. PYTHON has NumPy;
STRATA_CLIENT_LIBRARY names the client library. DIR (default: a temporary folder) is where
checkpoints go. Exits 1 where a goal is missed.
"""

import argparse
import glob
import json
import os
import shutil
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

    def train(self, steps, folder="", resume=""):
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
        begin = time.time()
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            fail(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
        with open(out, encoding="utf-8") as noted:
            return {**json.load(noted), "begin": begin}

    def write_alone(self, folder, count):
        """Returns the bytes a second of one process that writes so many there."""
        path = os.path.join(folder, "alone")
        piece = memoryview(os.urandom(PIECE))
        begin = time.time()
        with open(path, "wb", buffering=0) as file:
            for at in range(0, count, PIECE):
                file.write(piece[: min(PIECE, count - at)])
            os.fsync(file.fileno())
        seconds = time.time() - begin
        os.remove(path)
        return count / seconds


def mean_step(noted, skip):
    times = noted["steps"]
    return (times[-1] - times[skip]) / (len(times) - 1 - skip)


def newest(folder):
    """Returns the newest manifest, and the bytes of its checkpoint."""
    manifest = max(glob.glob(os.path.join(folder, "clock-*", "manifest.json")))
    parts = glob.glob(os.path.join(os.path.dirname(manifest), "*"))
    return manifest, sum(os.path.getsize(part) for part in parts)


def read_all(folder):
    """Returns the bytes a second of one process that reads the newest checkpoint."""
    manifest, count = newest(folder)
    begin = time.time()
    for part in glob.glob(os.path.join(os.path.dirname(manifest), "*")):
        with open(part, "rb", buffering=0) as file:
            while file.read(PIECE):
                pass
    return count / (time.time() - begin)


def measure(bench, options, folder):
    skip = options.every // 2  # of steps, before the first checkpoint
    costs, rates = [], []
    for pair in range(options.pairs):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        without = bench.train(options.steps)
        kept = bench.train(options.steps, folder)
        costs.append(mean_step(kept, skip) / mean_step(without, skip) - 1)
        manifest, count = newest(folder)
        if f"clock-{options.steps:020d}" not in manifest:
            fail(f"there is no checkpoint of step {options.steps}: the newest is {manifest}")
        seconds = os.path.getmtime(manifest) - kept["steps"][-1]
        rates.append(count / seconds / bench.write_alone(folder, count))
        if kept["sum"] != without["sum"]:
            fail("the job ended with other weights than without checkpoints")
        if not options.json:
            print(f"pair {pair}: step {mean_step(without, skip):.4f} s without, "
                  f"{mean_step(kept, skip):.4f} s with; {count / 1e9:.2f} GB in {seconds:.1f} s, "
                  f"{rates[-1]:.2f} of one writer's rate", flush=True)
    more = options.steps + 10
    whole = bench.train(more)
    read = read_all(folder)
    rest = bench.train(more, os.path.join(bench.scratch, "more"), folder)
    if rest["sum"] != whole["sum"] or rest["first"] != options.steps:
        fail(f"went on from step {rest['first']} and ended with other weights")
    _, count = newest(folder)
    bound = whole["ready"] - whole["begin"] + count / read
    resume = (rest["ready"] - rest["begin"]) / bound
    return {"cost": statistics.median(costs), "rate": statistics.median(rates), "resume": resume,
            "resume_s": rest["ready"] - rest["begin"], "resume_bound_s": bound,
            "bytes": count, "costs": costs, "rates": rates, "goals": GOALS,
            "cores": os.cpu_count()}


GOALS = {"cost": 0.01, "rate": 0.9, "resume": 1.2}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("python")
    parser.add_argument("--bytes", type=bytes_of, default=1 << 30)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--dir")
    parser.add_argument("--no-goals", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.steps % options.every != 0:
        fail(f"--steps: {options.steps} is no multiple of --every {options.every}")
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
              f"resume {result['resume']:.2f} of its bound of {result['resume_bound_s']:.1f} s "
              f"(goal 1.2); weights equal, bit for bit")
    if missed and not options.no_goals:
        sys.exit(f"checkpoints: missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
