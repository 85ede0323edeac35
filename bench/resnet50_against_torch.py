"""ResNet-50 on synthetic data on one device: Strata's trainer against PyTorch eager, images/s.

usage: resnet50_against_torch.py STRATA [--device cuda|cpu] [--precision BF16] [--batch 64]
           [--size 224] [--steps 60] [--pairs 5] [--python python3] [--device-plugin PLUGIN]

One rank with no exchange, in turn with PyTorch (A B A B ...), which has channels last, cuDNN's
benchmark mode, the same precision and batch; on the CPU both have one thread. Strata makes its
images for each batch and copies them to the device, PyTorch's lie there. Each leaves out the first
half of its steps, in which it tries algorithms, and must end with finite losses. Prints the pairs
and the median of their ratios. Exit status 77: there is no PyTorch, or none for the device.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
DEADLINE_S = 900
SKIPPED = 77
WANTED = 0.95  # of PyTorch's images/s, on a GPU

JOB = """
name: "resnet50"
model {{ zoo: "resnet50" precision: {precision} }}
data {{
  synthetic_imagenet {{ size: {size} train_samples: {samples} test_samples: 1 }}
  batch_per_rank: {batch}
}}
optimizer {{ momentum_sgd {{ momentum: 0.9 weight_decay: 1e-4 }} }}
schedule {{ base_lr: 0.01 }}
device: {device}
exchange: NONE
ranks: 1
epochs: 1
max_steps: {steps}
metrics {{ every_steps: {window} }}
"""


def strata(options, scratch, number):
    """Images per second."""
    run_dir = os.path.join(scratch, f"run-{number}")
    job = run_dir + ".textproto"
    on_gpu = options.device == "cuda"
    with open(job, "w", encoding="utf-8") as out:
        out.write(JOB.format(precision=options.precision if on_gpu else "FP32", size=options.size,
                             samples=options.batch * options.steps, batch=options.batch,
                             device="GPU" if on_gpu else "CPU", steps=options.steps,
                             window=max(1, options.steps // 6)))
    command = [options.strata, "local", "--slots", "1", "--runs", scratch, "--job", job, "--set",
               f'run_dir="{run_dir}"']
    if options.device_plugin:
        command += ["--device-plugin", options.device_plugin]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode != 0:
        sys.exit(f"resnet50_against_torch: {' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    with open(os.path.join(run_dir, "metrics.jsonl"), encoding="utf-8") as lines:
        records = [one for one in map(json.loads, lines) if one.get("samples")]
    losses = [one["loss"] for one in records]
    if not losses or not all(math.isfinite(loss) for loss in losses):
        sys.exit(f"resnet50_against_torch: Strata's losses are {losses}")
    return statistics.median(one["samples_per_s"] for one in records
                             if one["step"] > options.steps / 2)


def torch(options):
    on_gpu = options.device == "cuda"
    command = [options.python, os.path.join(HERE, "peers", "torch_resnet50.py"), "--device",
               options.device, "--precision", options.precision if on_gpu else "FP32", "--batch",
               str(options.batch), "--size", str(options.size), "--steps", str(options.steps),
               "--threads", "0" if on_gpu else "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode == SKIPPED:
        print(done.stderr.strip())
        sys.exit(SKIPPED)
    if done.returncode != 0:
        sys.exit(f"resnet50_against_torch: PyTorch failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)["images_per_s"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--precision", choices=("FP32", "TF32", "BF16"), default="BF16")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--python", default="python3", help="for which PyTorch is installed")
    parser.add_argument("--device-plugin", default="")
    options = parser.parse_args()
    if subprocess.run([options.python, "-c", "import torch"], capture_output=True,
                      check=False).returncode != 0:
        print(f"{options.python} has no PyTorch")
        sys.exit(SKIPPED)
    ratios = []
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(options.pairs):
            theirs, ours = torch(options), strata(options, scratch, number)
            ratios.append(ours / theirs)
            print(f"Strata: {ours:.1f} images/s   PyTorch: {theirs:.1f} images/s   ratio "
                  f"{ratios[-1]:.3f}", flush=True)
    print(f"ResNet-50, {options.device}, batch {options.batch}, {options.size} x {options.size}: "
          f"median ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
    if options.device == "cuda":
        reached = "reached" if statistics.median(ratios) >= WANTED else "MISSED"
        print(f"goal: ResNet-50's images/s beside PyTorch's: {statistics.median(ratios):.2f}, "
              f"wanted at least {WANTED:.2f}: {reached}")


if __name__ == "__main__":
    main()
