"""What the exchange costs: one rank through a cluster against the same trainer with no exchange.

usage: exchange_overhead.py STRATA [--model cnn] [--steps 60] [--batch 64] [--pairs 3] [--json]

Runs the two jobs in turn (A B A B ...) on this machine, each in a cluster of its own: 1 server
and 1 node with 1 slot, exchange PARAMETER_SERVER and NONE. Samples/s come from metrics.jsonl,
the first window (warm-up) left out. The two jobs must end with the same model.safetensors,
byte for byte: a fast wrong answer is an error. Prints each pair's figures, the median of the
pairwise ratios, and the bound, which is 1.
"""

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

JOB = """
name: "overhead"
model {{ zoo: "{model}" }}
data {{ synthetic {{ train_samples: {samples} test_samples: 64 }} batch_per_rank: {batch} }}
schedule {{ base_lr: 0.01 }}
ranks: 1
epochs: 1
exchange: {exchange}
metrics {{ every_steps: {window} }}
"""


def run(strata, exchange, options, scratch):
    """Trains once; returns (samples per second, bytes per step, hash of the model)."""
    run_dir = os.path.join(scratch, f"{exchange}-{len(os.listdir(scratch))}")
    job = run_dir + ".textproto"
    with open(job, "w", encoding="utf-8") as out:
        out.write(JOB.format(model=options.model, samples=options.steps * options.batch,
                             batch=options.batch, exchange=exchange,
                             window=max(1, options.steps // 6)))
    command = [strata, "local", "--servers", "1", "--nodes", "1", "--slots", "1",
               "--runs", scratch, "--job", job, "--set", f'run_dir="{run_dir}"']
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        sys.exit(f"exchange_overhead: {' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    with open(os.path.join(run_dir, "metrics.jsonl"), encoding="utf-8") as lines:
        records = [record for record in map(json.loads, lines) if not record.get("final")]
    rates = [record["samples_per_s"] for record in records[1:]]
    moved = sum(record["bytes_pushed"] + record["bytes_answered"] for record in records)
    with open(os.path.join(run_dir, "model.safetensors"), "rb") as model:
        digest = hashlib.sha256(model.read()).hexdigest()
    return statistics.median(rates), moved / records[-1]["step"], digest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ratios, rows = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for pair in range(options.pairs):
            cluster, moved, cluster_model = run(
                options.strata, "PARAMETER_SERVER", options, scratch)
            alone, _, alone_model = run(options.strata, "NONE", options, scratch)
            if cluster_model != alone_model:
                sys.exit("exchange_overhead: the two jobs ended with different models")
            ratios.append(cluster / alone)
            rows.append({"cluster": cluster, "alone": alone, "ratio": cluster / alone})
            if not options.json:
                print(f"pair {pair}: cluster {cluster:8.1f} samples/s   no exchange {alone:8.1f}   "
                      f"ratio {cluster / alone:.3f}", flush=True)
    result = {
        "model": options.model, "batch": options.batch, "steps": options.steps,
        "cores": os.cpu_count(), "machine": platform.machine(), "bytes_per_step": moved,
        "pairs": rows, "ratio_median": statistics.median(ratios), "bound": 1.0, "goal": 0.90,
        "models_equal": True,
    }
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        print(f"{options.model}, batch {options.batch}, {options.steps} steps, "
              f"{moved / 2**20:.2f} MiB a step, {os.cpu_count()} cores: "
              f"median ratio {result['ratio_median']:.3f} (min {min(ratios):.3f}, "
              f"max {max(ratios):.3f}; bound 1, goal 0.90); models equal, byte for byte")


if __name__ == "__main__":
    main()
