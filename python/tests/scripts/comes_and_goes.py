"""A job whose nodes may come and go: each rank writes what it uses in each step, and at the end its
weights. Later it is checked that each sample was used once in each epoch.

usage: comes_and_goes.py FOLDER [--samples N --batch N --epochs N --pause S --die-at STEP]
                                [--checkpoints FOLDER]
       comes_and_goes.py FOLDER --check [--samples N --batch N --epochs N]

As a job whose nodes come and go, on a cluster with room for more of them, which join by themselves:

  strata local --nodes 4 --slots 1 --listen unix:$PWD/cluster
  strata run -n 2 --coordinator unix:$PWD/cluster --set ranks_per_node=1 --set ranks_min=1 \\
      --set ranks_max=4 comes_and_goes.py $PWD/out --samples 501 --pause 0.2
  strata drain w0 --coordinator unix:$PWD/cluster

Node 0 leaves then. A file out/go ends the pauses. When the job has finished:
comes_and_goes.py out --check --samples 501.
"""

import argparse
import glob
import json
import os
import signal
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

import strata.torch as st


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--samples", type=int, default=101)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds in a step, without go")
    parser.add_argument("--die-at", type=int, default=-1, help="where rank 1 dies, once")
    parser.add_argument("--checkpoints", help="rank 1 dies once a whole one is in this folder")
    return parser.parse_args()


def train(args):
    torch.manual_seed(1)
    points = torch.rand(args.samples, 2)
    data = TensorDataset(torch.arange(args.samples), points)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.5)
    optimizer = st.DistributedOptimizer(optimizer, model, optimizer_on="servers")
    sampler = st.ElasticSampler(data, args.batch)
    loader = DataLoader(data, batch_sampler=sampler, num_workers=args.workers)
    rank, step = int(os.environ["RANK"]), optimizer.first_step
    os.makedirs(args.folder, exist_ok=True)
    path = os.path.join(args.folder, f"rank{rank}-{step}-{os.getpid()}.jsonl")
    with open(path, "w", buffering=1) as file:
        for epoch in range(args.epochs):
            sampler.set_epoch(epoch)
            for indices, x in loader:
                meet_the_end(args, rank, step)
                optimizer.zero_grad()
                (model(x).squeeze(1) - x.sum(1)).square().mean().backward()
                optimizer.step()
                of = optimizer.step_ranks(step)
                used = {"step": step, "rank": of.rank, "ranks": of.ranks, "used": indices.tolist()}
                file.write(json.dumps(used) + "\n")
                step += 1
                if not os.path.exists(os.path.join(args.folder, "go")):
                    time.sleep(args.pause)
        has_left = sampler.has_left
        st.finish()
        weights = [number for p in model.parameters() for number in p.flatten().tolist()]
        file.write(json.dumps({"steps": step, "left": has_left, "weights": weights}) + "\n")


def meet_the_end(args, rank, step):
    mark = os.path.join(args.folder, "met")
    if rank != 1 or step != args.die_at or os.path.exists(mark):
        return
    manifests = f"{glob.escape(args.checkpoints)}/*/manifest.json" if args.checkpoints else ""
    while manifests and not glob.glob(manifests):
        time.sleep(0.02)
    open(mark, "w").close()
    os.kill(os.getpid(), signal.SIGKILL)


def check(args):
    steps, ends = {}, []
    # Steps of a dead process were repeated with the same result.
    for path in glob.glob(f"{glob.escape(args.folder)}/*.jsonl"):
        for line in open(path):
            record = json.loads(line)
            if "step" not in record:
                ends.append(record)
                continue
            of_step = steps.setdefault(record["step"], {})
            before = of_step.setdefault(record["rank"], record)
            assert before == record, (before, record)
    row = []
    for step in range(len(steps)):
        of_step = steps[step]
        ranks = of_step[0]["ranks"]
        assert sorted(of_step) == list(range(ranks)), (step, sorted(of_step), ranks)
        row += [i for turn in zip(*(of_step[rank]["used"] for rank in range(ranks))) for i in turn]
    for epoch in range(args.epochs):
        used = row[epoch * args.samples : (epoch + 1) * args.samples]
        assert sorted(used) == list(range(args.samples)), (epoch, sorted(used))
    assert len(row) - args.epochs * args.samples < args.batch * steps[len(steps) - 1][0]["ranks"]
    stayed = [end for end in ends if not end["left"]]
    assert stayed and all(end == stayed[0] for end in stayed), stayed
    assert stayed[0]["steps"] == len(steps)
    counts = sorted({steps[step][0]["ranks"] for step in steps})
    print(f"{len(steps)} steps of {' or '.join(map(str, counts))} ranks, {len(ends)} ends,"
          f" {len(ends) - len(stayed)} left before")  # fmt: skip


if __name__ == "__main__":
    chosen = options()
    check(chosen) if chosen.check else train(chosen)
