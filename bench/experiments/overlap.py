"""Step times of double buffering with fp16 (E5), beside those of its computation and its exchange.

usage, by itself: overlap.py STRATA [--reduced]     live cases on shaped links, as JSON

In virtual time: clusters with three speeds of their links, computation of 25 ms. Live: 4 nodes and
2 servers as namespaces on links of 200 Mbit/s (../netlab.sh), `cnn`, because the shaper lets a
model as small as LeNet-5 through in a burst; a delay on each node stands for computation, so
that the cores of one machine are no limit. What a step exchanges is measured in sync with the same
codecs and (nearly) no computation, what it computes with no exchange.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import virtual_time  # noqa: E402  (in the folder above)

from campaign import FP16, Campaign, ExperimentError, count_cpu, records, run  # noqa: E402

STEPS, REDUCED_STEPS = 64, 16
COMPUTE_MS, NO_COMPUTE_MS = 25.0, 0.001
GBIT = {"computation is longer": 1.0, "both alike": 0.16, "exchange is longer": 0.05}
RATE, DELAYS_MS = "200mbit", {"computation is longer": 600, "both alike": 145,
                              "exchange is longer": 50}
CLUSTER = """
name: "4 nodes, {gbit:g} Gbit/s"
nodes {{ count: 4 compute {{ constant_ms: {compute_ms:g} }}
  link {{ gbit_per_s: {gbit:g} latency_us: 20 }} }}
servers {{ count: 2 shards: 2 link {{ gbit_per_s: {gbit:g} latency_us: 20 }}
  cpu_ns_per_byte: 0.3 cpu_us_per_frame: 20 }}
"""
NO_NAMESPACES = 77
FOLDER = "overlap"  # of an experiment's folder
VIRTUAL, LIVE = "virtual.json", "live.json"


def _virtual_ms(strata, folder, name, mode, gbit, compute_ms, reduced):
    """Milliseconds of a step in that mode."""
    path = os.path.join(folder, name + ".textproto")
    os.makedirs(folder, exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(CLUSTER.format(gbit=gbit, compute_ms=compute_ms))
    steps = REDUCED_STEPS if reduced else STEPS
    campaign = Campaign(name, (mode,), 4, 64, ("--cluster", path), seeds=1,
                        settings=("data.limit_train=16384", "data.limit_test=100",
                                  f"max_steps={steps}", f"metrics.every_steps={steps // 8}"))
    run(strata, campaign, os.path.join(folder, name))
    record, = records(os.path.join(folder, name)).values()
    return virtual_time.step_ms(record)


def virtual_cases(strata, folder, reduced=False):
    """A list of {case, step_ms, compute_ms, exchange_ms}."""
    cases = []
    for number, (case, gbit) in enumerate(GBIT.items()):
        step_ms = _virtual_ms(strata, folder, f"step-{number}", "delay1" + FP16, gbit, COMPUTE_MS,
                              reduced)
        exchange_ms = _virtual_ms(strata, folder, f"exchange-{number}", "sync" + FP16, gbit,
                                  NO_COMPUTE_MS, reduced)
        cases.append({"case": f"virtual, {case}", "step_ms": step_ms, "compute_ms": COMPUTE_MS,
                      "exchange_ms": exchange_ms})
    return cases


def _inside(options):
    """On the lab's hosts."""
    shape = ("", 4, 2, False)
    with tempfile.TemporaryDirectory() as scratch:
        lab = virtual_time.Lab(options, scratch)
        base_ms, _ = virtual_time.alone(lab, "alone", "NONE")  # with options.delay
        compute_ms = base_ms - options.delay
        job = virtual_time.job_of(options, 4, 0)
        exchange, = lab.live("exchange", job, "sync" + FP16, shape, 1)
        exchange_ms = virtual_time.step_ms(exchange)
        cases = []
        for number, (case, delay) in enumerate(DELAYS_MS.items()):
            job = virtual_time.job_of(options, 4, delay)
            record, = lab.live(f"step-{number}", job, "delay1" + FP16, shape, 1)
            cases.append({"case": f"live, {case}", "step_ms": virtual_time.step_ms(record),
                          "compute_ms": compute_ms + delay, "exchange_ms": exchange_ms})
    print(json.dumps(cases))


def live_cases(strata, reduced=False):
    """As virtual_cases; None where there are no namespaces. Errors: ExperimentError."""
    command = ["bench/netlab.sh", "--hosts", "6", "--rate", RATE, "--once", "--", sys.executable,
               os.path.abspath(__file__), os.path.abspath(strata), "--inside", "{hosts}",
               *(["--reduced"] if reduced else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == NO_NAMESPACES:
        return None
    if done.returncode != 0:
        raise ExperimentError(f"{' '.join(command)}: exit status {done.returncode}")
    return json.loads(done.stdout)


def make(strata, experiment, reduced=False):
    """What EXPERIMENT/overlap lacks; says so where live cases cannot be made."""
    folder = os.path.join(experiment, FOLDER)
    for name, cases in ((VIRTUAL, lambda: virtual_cases(strata, folder, reduced)),
                        (LIVE, lambda: live_cases(strata, reduced))):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            continue
        with count_cpu(folder):
            made = cases()
        if made is None:
            print("no namespaces here: no step times on shaped links")
            continue
        with open(path, "w", encoding="utf-8") as file:
            json.dump(made, file, indent=2)


def read(experiment):
    """By VIRTUAL and LIVE, the cases of EXPERIMENT/overlap; None: they are not made."""
    cases = {}
    for name in (VIRTUAL, LIVE):
        path = os.path.join(experiment, FOLDER, name)
        cases[name] = None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                cases[name] = json.load(file)
    return cases


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata", type=os.path.abspath)
    parser.add_argument("--reduced", action="store_true")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        print(json.dumps(live_cases(options.strata, options.reduced)))
        return
    options.model, options.batch, options.delay = "cnn", 1, 100
    options.steps, options.window = 16 if options.reduced else 32, 0
    _inside(options)


if __name__ == "__main__":
    main()
