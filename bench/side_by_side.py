"""Runs contenders side by side and writes tables of what came of it.

usage: side_by_side.py [SCENARIO|GROUP...] [--bin DIR] [--rounds N] [--tiny] [--write FILE] [--list]
                       [--before DIR]

In every round each contender runs once, one after the other, so that what else happens on the
machine falls on all of them, and in every other round in the other order. A figure is the median
over all steps of a contender; a ratio is the median over the rounds of (Strata's median / the
contender's median), with the least and the largest of them. Values are verified by each contender
in each step: a wrong one ends it all with status 1.
--tiny: sizes for a test. --write: puts each scenario's table into FILE, between marks of its own.
--before: Strata beside another build of it, such as one of an older commit, and no peers.
"""

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass, field, replace

import contenders
from contenders import Skipped, Work

MIB = 1 << 20
HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77


@dataclass
class Contender:
    name: str
    run: object  # (Work, folder, hosts_file, whether to measure the link) -> contenders.Run
    is_ring: bool = False
    share: float = 1.0  # of the bytes of fp32 that it moves
    is_peer: bool = False


def ours(name, *more, is_ring=False, share=1.0):
    def run(work, folder, hosts_file, measure):
        return contenders.strata(work, folder, more, hosts_file, 2 if measure else 0)
    return Contender(name, run, is_ring, share)


def node(name, *more):
    def run(work, folder, hosts_file, measure):
        return contenders.strata_node(work, folder, more)
    return Contender(name, run)


def encoded(name, codec, *more, is_ring=False):
    """Half the bytes; both ways, which in a ring `push` says alone."""
    pull = [] if is_ring else ["--set", f"pull.codec={codec}"]
    return ours(name, "--set", f"push.codec={codec}", *pull, *more, is_ring=is_ring, share=0.5)


def theirs(name, function, *more, is_ring=False, **named):
    def run(work, folder, hosts_file, measure):
        return function(work, folder, *more, **named)
    return Contender(name, run, is_ring, is_peer=True)


def protected(how, *more):
    return ours(f"Strata, {how}", "--set", f"protection={how}", *more)


OVER_TCP = ("--set", "same_host=TCP")
PUSH_PULL = theirs("ps-lite's manner", contenders.push_pull)
PIPELINED = theirs("the same, pulls pipelined", contenders.push_pull, pipelined=True)
CURVE = theirs("ps-lite's manner, CURVE", contenders.push_pull, curve=True)
GLOO = theirs("Gloo ring", contenders.gloo, is_ring=True)
TORCH_GLOO = theirs("PyTorch's Gloo", contenders.torch_gloo, is_ring=True)
TORCH_TLS = theirs("PyTorch's Gloo, TLS", contenders.torch_gloo, is_ring=True, tls=True)
MPI_TCP = theirs("OpenMPI, tcp", contenders.mpi, "tcp", is_ring=True)
MPI_SHARED = theirs("OpenMPI, shared memory", contenders.mpi, "vader", is_ring=True)


@dataclass
class Goal:
    """The median over the rounds of (its step / the step of `beside`) is to be `at_most`."""
    name: str
    beside: str
    at_most: float


@dataclass
class Scenario:
    title: str
    work: Work
    contenders: list  # Strata first
    rounds: int = 5
    lab: bool = False  # a host for every node and server, on links of 1 Gbit/s
    is_node: bool = False  # ranks of one node: the bound is the memory's, and Strata measures it
    goals: list = field(default_factory=list)


SCENARIOS = {
    "one-host": Scenario(
        "One host, shared memory: 2 nodes, 1 server, 100 MiB, sync, optimizer applied",
        Work(nodes=2, servers=1, size=100 * MIB, steps=20, warmup=3),
        [ours("Strata"), ours("Strata, window 2", "--window", "2"), PUSH_PULL, PIPELINED, GLOO,
         MPI_SHARED]),
    "one-host-tcp": Scenario(
        "One host, TCP forced: 2 nodes, 1 server, 100 MiB, sync, optimizer applied",
        Work(nodes=2, servers=1, size=100 * MIB, steps=20, warmup=3),
        [ours("Strata", *OVER_TCP), ours("Strata, window 2", "--window", "2", *OVER_TCP), PUSH_PULL,
         PIPELINED, GLOO, MPI_TCP]),
    "node": Scenario(
        "Node level: 2 ranks of one node, 100 MiB each, summed and visible to both",
        Work(nodes=2, servers=0, size=100 * MIB, steps=20, warmup=3),
        [node("Strata"), node("Strata, one thread adds", "--helpers", "0"), MPI_SHARED],
        is_node=True),
    "node-4": Scenario(
        "Node level: 4 ranks of one node, 100 MiB each, summed and visible to all",
        Work(nodes=4, servers=0, size=100 * MIB, steps=20, warmup=3),
        [node("Strata"), node("Strata, one thread adds", "--helpers", "0"), MPI_SHARED],
        is_node=True),
    "small": Scenario(
        "Small model, shared memory: 2 nodes, 1 server, 256 KiB",
        Work(nodes=2, servers=1, size=256 << 10, steps=1000, warmup=100),
        [ours("Strata"), PUSH_PULL, PIPELINED, GLOO, MPI_SHARED]),
    "small-tcp": Scenario(
        "Small model, TCP forced: 2 nodes, 1 server, 256 KiB",
        Work(nodes=2, servers=1, size=256 << 10, steps=1000, warmup=100),
        [ours("Strata", *OVER_TCP), PUSH_PULL, PIPELINED, GLOO, MPI_TCP]),
    "shaped-2": Scenario(
        "Shaped links, 1 Gbit/s: 2 nodes, 2 servers, 64 MiB",
        Work(nodes=2, servers=2, size=64 * MIB, steps=6, warmup=1),
        [ours("Strata, servers"), ours("Strata, ring", "--exchange", "ring", is_ring=True),
         PUSH_PULL, PIPELINED, GLOO], rounds=3, lab=True),
    "shaped-4": Scenario(
        "Shaped links, 1 Gbit/s: 4 nodes, 4 servers, 64 MiB",
        Work(nodes=4, servers=4, size=64 * MIB, steps=6, warmup=1),
        [ours("Strata, servers"), ours("Strata, ring", "--exchange", "ring", is_ring=True),
         PUSH_PULL, PIPELINED, GLOO], rounds=3, lab=True),
    "fp16": Scenario(
        "Codecs on shaped links, 1 Gbit/s: 2 nodes, 2 servers, 64 MiB",
        Work(nodes=2, servers=2, size=64 * MIB, steps=6, warmup=1),
        [ours("fp32"), encoded("fp16", "FP16"), encoded("bf16", "BF16"),
         ours("ring, fp32", "--exchange", "ring", is_ring=True),
         encoded("ring, fp16", "FP16", "--exchange", "ring", is_ring=True)], rounds=3, lab=True),
    "security-tcp": Scenario(
        "Protection, one host, TCP forced: 2 nodes, 1 server, 100 MiB",
        Work(nodes=2, servers=1, size=100 * MIB, steps=20, warmup=3),
        [protected("ENCRYPT", *OVER_TCP), protected("SIGN", *OVER_TCP),
         protected("PLAIN", *OVER_TCP), PUSH_PULL, CURVE, GLOO, TORCH_GLOO, TORCH_TLS],
        goals=[Goal("Strata, ENCRYPT", "Strata, PLAIN", 1.8),
               Goal("Strata, SIGN", "Strata, PLAIN", 1.35),
               Goal("Strata, ENCRYPT", CURVE.name, 0.45)]),
    "security-shaped": Scenario(
        "Protection, shaped links, 1 Gbit/s: 2 nodes, 2 servers, 64 MiB",
        Work(nodes=2, servers=2, size=64 * MIB, steps=6, warmup=1),
        [protected("ENCRYPT"), protected("SIGN"), protected("PLAIN"), PUSH_PULL, CURVE, GLOO,
         TORCH_GLOO, TORCH_TLS], rounds=3, lab=True,
        goals=[Goal("Strata, ENCRYPT", "Strata, PLAIN", 1.01)]),
    "security-regions": Scenario(
        "Protection, one host, shared memory: 2 nodes, 1 server, 100 MiB",
        Work(nodes=2, servers=1, size=100 * MIB, steps=20, warmup=3),
        [protected("ENCRYPT"), protected("SIGN"), protected("PLAIN")],
        goals=[Goal("Strata, ENCRYPT", "Strata, PLAIN", 1.02)]),
}

AT_MOST_BEFORE = 1.03  # what new code may cost jobs that do not use it

# Names for several scenarios.
GROUPS = {"security": ["security-tcp", "security-shaped", "security-regions"]}


def beside_before(scenario, folder):
    """The scenario with each of Strata's contenders beside that of the build in `folder`."""
    scenario.goals, both = [], []
    first = scenario.contenders[0]
    for one in [one for one in scenario.contenders if not one.is_peer]:
        def run(work, _, hosts_file, __, now=one):  # the link is measured by both or by none
            return now.run(work, folder, hosts_file, now is first)
        before = replace(one, name=f"{one.name}, before", run=run)
        both += [one, before]
        scenario.goals.append(Goal(one.name, before.name, AT_MOST_BEFORE))
    scenario.contenders = both


def passes_over_link(work, is_ring):
    """How often a node's bytes cross the busiest link; the bound is that times bytes / B."""
    n, k = work.nodes, work.servers
    if work.hosts:
        return 2 * (n - 1) / n if is_ring else max(1, n / k)
    return 2 * (n - 1) if is_ring else 2 * n


def check_tools(scenario):
    """Ends it all where the bound of its table could not be measured."""
    if not scenario.is_node and shutil.which("iperf3") is None:
        sys.exit("side_by_side: iperf3 is not installed, which measures the link that a step is"
                 " held against: deploy/install_packages.sh --tests installs it")


def speed_of_link(facts):
    """Bytes a second that iperf3 has found; ends it all where it has not."""
    speed = facts.get("bytes_per_s", 0)
    if speed is None:
        sys.exit(f"side_by_side: the link's speed is {facts.get('bandwidth_source', 'not known')}")
    return speed


def libraries():
    """Returns the libraries of third_party/optional_libraries.bzl: name -> one of its files."""
    path = os.path.join(HERE, "..", "third_party", "optional_libraries.bzl")
    with open(path, encoding="utf-8") as file:
        return dict(re.findall(r'^    "(\w+)": "(/[^"]+)",$', file.read(), re.MULTILINE))


def check_libraries(defs, there=os.path.exists):
    """Ends it all where a library has come since Bazel looked, which `defs` tells of."""
    if not os.path.exists(defs):
        return  # it has not looked yet
    with open(defs, encoding="utf-8") as file:
        text = file.read()
    for name, path in libraries().items():
        if re.search(rf"^NEEDS_{name.upper()} = \[.+\]$", text, re.MULTILINE) and there(path):
            sys.exit(f"side_by_side: {name} was installed after Bazel had looked for it: run bazel"
                     " shutdown, then this again")


def measure(scenario, work, folder, hosts_file, rounds):
    """Returns what each contender did, by name, and what was found out about the link."""
    medians = {one.name: [] for one in scenario.contenders}
    steps = {one.name: [] for one in scenario.contenders}
    shares = {one.name: [] for one in scenario.contenders}
    skipped, speeds, bounds, facts = {}, [], [], {}
    for round_ in range(rounds):
        for one in scenario.contenders[:: -1 if round_ % 2 else 1]:
            if one.name in skipped:
                continue
            is_first = one is scenario.contenders[0]
            try:
                run = one.run(work, folder, hosts_file, is_first)
            except Skipped as reason:
                skipped[one.name] = str(reason)
                continue
            if not run.verified:
                sys.exit(f"side_by_side: {one.name}: the values were wrong")
            medians[one.name].append(statistics.median(run.steps_ms))
            steps[one.name] += run.steps_ms
            if "bounds_ms" in run.facts:
                shares[one.name] += [a / b for a, b in zip(run.facts["bounds_ms"], run.steps_ms)]
            if is_first:
                facts = run.facts
                speeds.append(speed_of_link(facts))
                bounds.append(run.facts["bound_ms"])
    first = scenario.contenders[0].name
    if first in skipped:
        sys.exit(f"side_by_side: {first}: {skipped[first]}")
    bandwidth = statistics.median(speeds)
    rows = []
    for one in scenario.contenders:
        if one.name in skipped:
            continue
        moved = passes_over_link(work, one.is_ring) * work.size * one.share
        bound = 1e3 * moved / bandwidth if bandwidth else 0
        if scenario.is_node:
            bound = statistics.median(bounds)
        pairs = zip(medians[first], medians[one.name])
        rows.append({"name": one.name, "steps_ms": steps[one.name], "bound_ms": bound,
                     "medians_ms": medians[one.name], "shares": shares[one.name],
                     "ratios": [a / b for a, b in pairs]})
    return {"rows": rows, "skipped": skipped, "bytes_per_s": bandwidth,
            "bytes_per_s_each": speeds, "facts": facts}


def with_spread(ratios):
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def goals_text(scenario, result):
    """A line per goal."""
    medians = {row["name"]: row["medians_ms"] for row in result["rows"]}
    lines = []
    for goal in scenario.goals:
        found = "not measured"
        if goal.name in medians and goal.beside in medians:
            ratios = [a / b for a, b in zip(medians[goal.name], medians[goal.beside])]
            met = "met" if statistics.median(ratios) <= goal.at_most else "missed"
            found = f"{with_spread(ratios)}, {met}"
        lines.append(f"- {goal.name} / {goal.beside}, at most {goal.at_most:g}: {found}\n")
    return "\nGoals, of steps:\n\n" + "".join(lines) if lines else ""


def table(result):
    first = result["rows"][0]["name"]
    lines = [f"| | min ms | median ms | p99 ms | bound ms | share of the bound | {first} / it |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for row in result["rows"]:
        steps = sorted(row["steps_ms"])
        median, bound = statistics.median(steps), row["bound_ms"]
        p99 = steps[max(0, -(-99 * len(steps) // 100) - 1)]
        spread = with_spread(row["ratios"])
        share = statistics.median(row["shares"]) if row["shares"] else bound / median
        lines.append(f"| {row['name']} | {steps[0]:.3f} | {median:.3f} | {p99:.3f} | "
                     f"{bound:.3f} | {share:.3f} | "
                     f"{'' if row['name'] == first else spread} |")
    return "\n".join(lines)


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as text:
        found = re.search(r"model name\s*: (.*)", text.read())
    with open("/proc/meminfo", encoding="utf-8") as text:
        gib = int(re.search(r"MemTotal:\s*(\d+)", text.read()).group(1)) / (1 << 20)
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return (f"{found.group(1) if found else platform.machine()}, {os.cpu_count()} cores, "
            f"{gib:.0f} GiB, Linux {platform.release()}; load average before it {load}")


def bound_text(scenario, work, result):
    """Returns the bounds of a table."""
    facts = result["facts"]
    if scenario.is_node:
        moved = (work.nodes + 1) * work.size
        rate = moved / facts["bound_ms"] / 1e6
        return (f"Bound: {facts['bound_threads']} threads read {work.nodes} vectors and write one "
                f"past the caches, measured after each of Strata's steps ({rate:.1f} GB/s in the "
                "last round); Strata's shares are those of single steps")
    each = ", ".join(f"{one / 1e6:.0f}" for one in result["bytes_per_s_each"])
    return (f"One TCP stream in the same run: {result['bytes_per_s'] / 1e6:.1f} MB/s (iperf3 per "
            f"round: {each}); congestion control {facts['congestion']}")


def report(name, scenario, work, rounds, result, before):
    facts = result["facts"]
    window = f", window {facts['window']}" if "window" in facts else ""
    skipped = "".join(f"Not measured: {one} ({why}).\n" for one, why in result["skipped"].items())
    return (f"## {scenario.title}\n\n"
            f"    bench/run.sh {name}\n\n"
            f"{before}. {rounds} rounds of {work.steps} steps after {work.warmup} of warm-up; "
            f"{work.size / MIB:g} MiB each, for Strata in {facts['chunks']} chunks of "
            f"{facts['chunk_elements']} weights{window}. {bound_text(scenario, work, result)}. "
            f"All values verified in every step.\n"
            f"{skipped}\n{table(result)}\n{goals_text(scenario, result)}")


def write(path, name, text):
    """Puts the text between the scenario's marks, or at the end; what is outside of them stays."""
    begin, end = f"<!-- bench/run.sh {name} -->", f"<!-- end of {name} -->"
    with open(path, encoding="utf-8") as file:
        content = file.read()
    block = f"{begin}\n{text}{end}"
    if begin in content:
        head, rest = content.split(begin, 1)
        old, found, rest = rest.partition(end)
        if not found or "<!-- " in old:
            sys.exit(f"side_by_side: {path}: {begin} is not followed by {end}: nothing is written")
        content = head + block + rest
    else:
        content = content.rstrip("\n") + f"\n\n{block}\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)


def read_hosts(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.split() for line in file if line.strip()]
    return [(address, enter) for _, address, *enter in lines]


def in_lab(name, scenario, options):
    """Runs itself on hosts of the network lab; None where there can be none."""
    lab = [os.path.join(HERE, "netlab.sh"), "--hosts",
           str(scenario.work.nodes + scenario.work.servers), "--once", "--", sys.executable,
           os.path.abspath(__file__), name, "--bin", options.bin, "--hosts-file", "{hosts}",
           *(["--tiny"] if options.tiny else []),
           *(["--before", options.before] if options.before else []),
           *(["--rounds", str(options.rounds)] if options.rounds else [])]
    done = subprocess.run(lab, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == SKIPPED:
        return None
    if done.returncode != 0:
        sys.exit(f"side_by_side: {name} failed")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scenarios", nargs="*")
    parser.add_argument("--bin", default="bazel-bin")
    parser.add_argument("--before", default="")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--write", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--hosts-file", default="")  # inside the lab
    parser.add_argument("--check-libraries", default="")  # Bazel's defs.bzl of optional_libraries
    options = parser.parse_args()
    if options.check_libraries:
        check_libraries(options.check_libraries)
        return
    if options.list:
        print("\n".join(f"{name}: {one.title}" for name, one in SCENARIOS.items()))
        print("\n".join(f"{name}: {', '.join(all_of)}" for name, all_of in GROUPS.items()))
        return
    names = [one for name in options.scenarios for one in GROUPS.get(name, [name])]
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        there = ", ".join([*SCENARIOS, *GROUPS])
        sys.exit(f"side_by_side: no scenario {unknown[0]}: {there} are there")
    for name in names or SCENARIOS:
        scenario, before = SCENARIOS[name], machine()
        check_tools(scenario)
        work = scenario.work
        if options.before:
            beside_before(scenario, options.before)
        if options.tiny:
            work.size, work.steps, work.warmup = min(work.size, 200000), 3, 1
        rounds = options.rounds or (1 if options.tiny else scenario.rounds)
        if options.hosts_file:
            work.hosts = read_hosts(options.hosts_file)
            print(json.dumps(measure(scenario, work, options.bin, options.hosts_file, rounds)))
            return
        result = (in_lab(name, scenario, options) if scenario.lab else
                  measure(scenario, work, options.bin, "", rounds))
        if result is None:
            print(f"{name}: skipped, the network lab takes root\n", flush=True)
            continue
        called = f"{name} --before DIR" if options.before else name
        text = report(called, scenario, work, rounds, result, before)
        print(text, flush=True)
        if options.write:
            write(options.write, called, text)


if __name__ == "__main__":
    main()
