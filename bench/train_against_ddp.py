"""LeNet-5 on Fashion-MNIST: Strata's trainer against PyTorch DDP over Gloo, images per second.

usage: train_against_ddp.py STRATA [--ranks 4] [--epochs 1] [--limit 0] [--pairs 3] [--json]

Both train with the same model, batch 64 a rank, one thread a rank, learning rate 0.05 and momentum
0.9, on one host, in turn (A B A B ...). With --ranks 1 neither exchanges anything: that is compute
alone. Each must end with the same weights on all ranks, and after a whole epoch with an accuracy
above --accuracy: a fast model that has learned nothing is an error. Prints the pairs and the median
of their ratios.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"  # for which Debian installs torch
DEADLINE_S = 900

JOB = """
name: "lenet"
model {{ zoo: "lenet5" }}
data {{ idx {{ dir: "{data}" }} batch_per_rank: 64 limit_train: {limit} }}
optimizer {{ momentum_sgd {{ momentum: 0.9 }} }}
schedule {{ base_lr: 0.05 }}
ranks: {ranks}
epochs: {epochs}
exchange: {exchange}
metrics {{ every_steps: {window} }}
"""


def strata(options, scratch, number):
    """Returns images per second and accuracy."""
    run_dir = os.path.join(scratch, f"run-{number}")
    samples = options.limit or 60000
    steps = max(1, samples // (64 * options.ranks)) * options.epochs
    job = run_dir + ".textproto"
    with open(job, "w", encoding="utf-8") as out:
        out.write(JOB.format(data=options.data, limit=options.limit, ranks=options.ranks,
                             epochs=options.epochs, window=max(1, steps // 6),
                             exchange="PARAMETER_SERVER" if options.ranks > 1 else "NONE"))
    command = [options.strata, "local", "--servers", "1", "--nodes", "1", "--slots",
               str(options.ranks), "--runs", scratch, "--job", job, "--set",
               f'run_dir="{run_dir}"',
               *(word for one in options.set for word in ("--set", one))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode != 0:
        sys.exit(f"train_against_ddp: {' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    with open(os.path.join(run_dir, "metrics.jsonl"), encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    windows = [one["samples_per_s"] for one in records if not one.get("final")]
    accuracy = [one["test_accuracy"] for one in records if one.get("test_accuracy") is not None]
    return statistics.median(windows[1:] or windows), accuracy[-1]


def ddp(options, scratch, number):
    store = os.path.join(scratch, f"store-{number}")
    ranks = [subprocess.Popen(
        [PYTHON, os.path.join(HERE, "peers", "ddp_lenet.py"), "--rank", str(rank), "--nodes",
         str(options.ranks), "--store", store, "--epochs", str(options.epochs), "--limit",
         str(options.limit), "--data", options.data],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(options.ranks)]
    try:
        said = [rank.communicate(timeout=DEADLINE_S) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, (_, err) in zip(ranks, said):
        if rank.returncode != 0:
            sys.exit(f"train_against_ddp: DDP failed: {err[-500:]}")
    results = [json.loads(out) for out, _ in said]
    return min(one["images_per_s"] for one in results), results[0]["accuracy"]


def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch.distributed"], capture_output=True,
                          check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--accuracy", type=float, default=0.7)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--set", action="append", default=[], help="of Strata's job")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch = has_torch()
    pairs = []
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(options.pairs):
            pair = {"strata": strata(options, scratch, number)}
            if torch:
                pair["ddp"] = ddp(options, scratch, number)
            for who, (_, accuracy) in pair.items():
                if accuracy < options.accuracy:
                    sys.exit(f"train_against_ddp: {who}: accuracy {accuracy} after the training")
            pairs.append(pair)
            if not options.json:
                print("   ".join(f"{who}: {rate:.0f} images/s, accuracy {accuracy:.3f}"
                                 for who, (rate, accuracy) in pair.items()), flush=True)
    ratios = [pair["strata"][0] / pair["ddp"][0] for pair in pairs if torch]
    if options.json:
        print(json.dumps({"ranks": options.ranks, "pairs": pairs, "ratios": ratios}))
    elif torch:
        print(f"{options.ranks} ranks: median ratio {statistics.median(ratios):.3f} "
              f"({min(ratios):.3f} to {max(ratios):.3f})")
    else:
        print(f"{options.ranks} ranks: no ratio, PyTorch is not installed "
              "(deploy/install_packages.sh --bench)")


if __name__ == "__main__":
    main()
