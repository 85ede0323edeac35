"""PyTorch models by Strata and by DDP over Gloo, side by side: seconds a step.

usage: python_against_ddp.py STRATA PYTHON [--cases exchange lenet ...] [--pairs N]

PYTHON is an interpreter with torch; the package `strata` is taken from this tree, its library from
$STRATA_CLIENT_LIBRARY. Both contenders train the same model on the same data with one thread a
rank, in turn (A B A B ...); they must end with the same parameters. Prints the medians and the
median of the pairs' ratios.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RANK = os.path.join(HERE, "peers", "torch_rank.py")
DEADLINE_S = 900

# name: (ranks, options of torch_rank.py, the peer, goal of Strata's seconds beside the peer's)
CASES = {
    "alone": (1, ["lenet", "--steps", "100"], "plain", 1 / 0.97),
    "exchange": (4, ["exchange", "--steps", "10"], "ddp", 0.40),
    "lenet": (4, ["lenet", "--steps", "60"], "ddp", 1 / 1.30),
    "resnet18-2": (2, ["resnet18", "--steps", "6", "--batch", "16"], "ddp", 1 / 1.05),
    "resnet18-4": (4, ["resnet18", "--steps", "5", "--batch", "16"], "ddp", 1 / 1.05),
    "transformer": (4, ["transformer", "--steps", "6", "--batch", "1"], "ddp", 1 / 1.15),
    "many": (2, ["many", "--steps", "40"], "ddp", 1.0),
}


def environment(**more):
    path = os.pathsep.join(
        [os.path.join(os.path.dirname(HERE), "python"), os.environ.get("PYTHONPATH", "")]
    )
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def result(text):
    for line in text.splitlines():
        if line.startswith('{"seconds"'):
            return json.loads(line)
    sys.exit(f"python_against_ddp: rank 0 printed no result:\n{text}")


def strata(options, ranks, words, scratch):
    command = [
        options.strata,
        "run",
        "-n",
        str(ranks),
        "--python",
        options.python,
        *options.options,
        RANK,
        "strata",
        *words,
    ]
    if ranks == 1:
        command[4:4] = ["--set", "exchange=NONE", "--servers", "0"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE_S, cwd=scratch, env=environment()
    )
    if done.returncode:
        sys.exit(f"python_against_ddp: {' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return result(done.stdout)


def peer(options, how, ranks, words, scratch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    started = [
        subprocess.Popen(
            [options.python, RANK, how, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=scratch,
            env=environment(
                MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=str(rank), WORLD_SIZE=str(ranks)
            ),
        )
        for rank in range(ranks)
    ]
    try:
        said = [process.communicate(timeout=DEADLINE_S) for process in started]
    finally:
        for process in started:
            process.kill()
    if any(process.returncode for process in started):
        sys.exit(f"python_against_ddp: {how} failed:\n{said[0][1]}")
    return result(said[0][0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("strata")
    parser.add_argument("python")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, help="in place of each case's own")
    parser.add_argument(
        "--options", nargs=argparse.REMAINDER, default=[], help="of `strata run`; last"
    )
    options = parser.parse_args()
    options.strata = os.path.abspath(options.strata)
    print("| case | ranks | Strata, ms a step | peer | its ms | ratio (least to most) | goal |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in options.cases:
        ranks, words, other, goal = CASES[name]
        if options.steps:
            words = [*words, "--steps", str(options.steps)]
        pairs = []
        with tempfile.TemporaryDirectory() as scratch:
            for _ in range(options.pairs):
                ours = strata(options, ranks, words, scratch)
                theirs = peer(options, other, ranks, words, scratch)
                if abs(ours["sum"] - theirs["sum"]) > 1e-3 * max(1.0, abs(theirs["sum"])):
                    sys.exit(
                        f"python_against_ddp: {name}: parameters add up to {ours['sum']} and"
                        f" {theirs['sum']}"
                    )
                pairs.append([statistics.median(one["seconds"]) for one in (ours, theirs)])
        ratios = [a / b for a, b in pairs]
        a, b = (statistics.median(column) * 1e3 for column in zip(*pairs))
        print(
            f"| {name} | {ranks} | {a:.2f} | {other} | {b:.2f} | {statistics.median(ratios):.3f} "
            f"({min(ratios):.3f} to {max(ratios):.3f}) | {goal:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
