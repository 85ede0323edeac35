"""What rows on servers cost beside MXNet's: one worker and one server on this machine, loopback.

usage: rows_exchange.py STRATA [--mxnet PYTHON] [--rows 10763] [--dim 16] [--ids 100000]
                        [--steps 40] [--rounds 10] [--protection PLAIN] [--no-goals] [--json]

A step pulls the rows of a batch and pushes a gradient for each of them, and the next one begins
when the server has it. Ids of a batch are drawn from --ids; gradients are 1, and the server has
SGD.

- strata: `st.Embedding` in a job of mode async: forward, backward, step,
- calls: the same without PyTorch's passes, as a KVStore is called: look up, push, step,
- mxnet: a KVStore `dist_async` with row_sparse gradients: push, row_sparse_pull. PYTHON has mxnet
  1.9.1 and numpy 1.23.5; without it the side is left out. MXNet does not encrypt, and Strata does
  by default: a job that does not has --protection PLAIN.

All take the same batches, in turn, --steps a round. Prints the median step of each side, and the
median over rounds of MXNet's time divided by that of calls (`ratio`) and of strata
(`ratio_of_passes`); the goal for calls is 2. Verified: at the end rows have the sums of all
steps. Exits 1 where the goal is missed. This program's own Python has torch.
STRATA_CLIENT_LIBRARY names the client library.
"""

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
from cluster import fail, free_port  # noqa: E402

GOAL = 2.0
LIMIT_S = 300
RATE = 0.5


def batch(options, seed):
    """The ids of a step, ascending, each once."""
    return sorted(random.Random(seed).sample(range(options.ids), options.rows))


class StrataSide:
    def __init__(self, options):
        sys.path.append(os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))
        import torch

        import strata.torch as st

        self.torch, self.finish = torch, st.finish
        self.model = st.Embedding("rows", options.dim, capacity=options.ids,
                                  optimizer=st.RowSGD(RATE), init=st.Constant(1.0))
        own = torch.optim.SGD(self.model.parameters(), RATE)
        self.optimizer = st.DistributedOptimizer(own, self.model)
        self.optimizer.samples = 1

    def prepare(self, ids):
        return self.torch.tensor(ids)

    def step(self, ids):
        self.model(ids).sum().backward()
        self.optimizer.step()

    def settle(self, ids):
        self.model.table.lookup(ids[:1].numpy())

    def values(self, ids):
        return self.model.table.lookup(ids)[:, 0].tolist()


class CallsSide(StrataSide):
    def __init__(self, options):
        super().__init__(options)
        self.ones = self.torch.ones(options.rows, options.dim)
        self.out = self.torch.empty(options.rows, options.dim)

    def step(self, ids):
        self.model.table._lookup(ids.data_ptr(), len(ids), self.out.data_ptr())
        self.model._pushing(ids, None)(self.ones)
        self.optimizer.step()


class MxnetSide:
    def __init__(self, options):
        import mxnet as mx

        self.mx, self.shape = mx, (options.ids, options.dim)
        self.store = mx.kv.create("dist_async")
        self.store.init("rows", mx.nd.ones(self.shape).tostype("row_sparse"))
        self.store.set_optimizer(mx.optimizer.SGD(learning_rate=RATE, wd=0.0))
        self.ones = mx.nd.ones((options.rows, options.dim))
        self.out = mx.nd.sparse.zeros("row_sparse", self.shape)

    def finish(self):
        pass

    def prepare(self, ids):
        return self.mx.nd.array(ids, dtype="int64")

    def step(self, ids):
        self.store.row_sparse_pull("rows", out=self.out, row_ids=ids)
        self.out.wait_to_read()
        gradient = self.mx.nd.sparse.row_sparse_array((self.ones, ids), shape=self.shape)
        self.store.push("rows", gradient)

    def settle(self, ids):
        self.store.row_sparse_pull("rows", out=self.out, row_ids=ids[:1])
        self.out.wait_to_read()

    def values(self, ids):
        wanted = self.mx.nd.array(ids, dtype="int64")
        self.store.row_sparse_pull("rows", out=self.out, row_ids=wanted)
        return self.out.data.asnumpy()[:, 0].tolist()


def work(options):
    """The worker of a side: makes the steps of a round where it is asked to."""
    side = {"strata": StrataSide, "calls": CallsSide, "mxnet": MxnetSide}[options.side](options)
    with socket.create_connection(("127.0.0.1", options.port)) as line:
        lines = line.makefile("rw")
        seed = 0
        for word in lines:
            if word.strip() == "end":
                some = batch(options, 0)[:50]
                answer = dict(zip(map(str, some), side.values(some)))
            else:
                batches = [side.prepare(batch(options, seed + i)) for i in range(options.steps)]
                seed += options.steps
                begin = time.perf_counter()
                for ids in batches:
                    side.step(ids)
                side.settle(batches[-1])
                answer = (time.perf_counter() - begin) / options.steps
            lines.write(json.dumps(answer) + "\n")
            lines.flush()
            if word.strip() == "end":
                break
    side.finish()


class Side:
    """The processes of a side, and the connection to its worker."""

    def __init__(self, name, options, listener, scratch):
        self.name, self.processes = name, []
        self.log = open(os.path.join(scratch, f"{name}.log"), "w+")
        words = [os.path.abspath(__file__), options.strata, "--side", name, "--port",
                 str(listener.getsockname()[1])]
        for field in ("rows", "dim", "ids", "steps"):
            words += [f"--{field}", str(getattr(options, field))]
        if name != "mxnet":
            runs, safe = os.path.join(scratch, name), f"protection={options.protection}"
            self.start([options.strata, "run", "-n", "1", "--servers", "1", "--mode", "async",
                        "--runs", runs, "--set", safe, "--set", "rows.bytes_per_step=268435456",
                        "--python", sys.executable] + words)
        else:
            hosts = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(free_port()),
                     "DMLC_NUM_SERVER": "1", "DMLC_NUM_WORKER": "1", "DMLC_INTERFACE": "lo"}
            for role in ("scheduler", "server"):
                self.start([options.mxnet, "-c", "import mxnet"], {**hosts, "DMLC_ROLE": role})
            self.start([options.mxnet] + words, {**hosts, "DMLC_ROLE": "worker"})
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            self.give_up("has not come")
        connection.settimeout(LIMIT_S)
        self.lines = connection.makefile("rw")
        self.times = []

    def start(self, command, environment=None):
        self.processes.append(
            subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT,
                             env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})})
        )

    def ask(self, word):
        self.lines.write(word + "\n")
        self.lines.flush()
        answer = self.lines.readline()
        if not answer:
            self.give_up("has ended")
        return json.loads(answer)

    def give_up(self, why):
        self.log.seek(0)
        fail(f"{self.name}: its worker {why}: {self.log.read()[-2000:]}")

    def end(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def measure(options, sides):
    for round_ in range(options.rounds + 1):
        for side in sides[:: 1 if round_ % 2 else -1]:
            took = side.ask("round")
            if round_:  # the first one warms up
                side.times.append(took)
    counts = {}
    for step in range((options.rounds + 1) * options.steps):
        for id_ in batch(options, step):
            counts[id_] = counts.get(id_, 0) + 1
    for side in sides:
        for id_, value in side.ask("end").items():  # rows begin with 1
            expected = 1.0 - RATE * counts[int(id_)]
            if value != expected:
                fail(f"{side.name}: row {id_} is {value}, not {expected}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("strata")
    parser.add_argument("--mxnet")
    for field, default in (("rows", 10763), ("dim", 16), ("ids", 100000), ("steps", 40),
                           ("rounds", 10)):
        parser.add_argument(f"--{field}", type=int, default=default)
    parser.add_argument("--protection", default="ENCRYPT")
    parser.add_argument("--no-goals", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not 1 <= options.rows <= options.ids:
        fail(f"--rows {options.rows}: is not within 1 and --ids, {options.ids}")
    if options.side:
        return work(options)
    sides = []
    with tempfile.TemporaryDirectory() as scratch, socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(60)
        try:
            for name in ("strata", "calls") + (("mxnet",) if options.mxnet else ()):
                sides.append(Side(name, options, door, scratch))
            measure(options, sides)
        finally:
            for side in sides:
                side.end()
    result = {side.name + "_ms": 1e3 * statistics.median(side.times) for side in sides}
    if options.mxnet:
        passes, calls, theirs = (side.times for side in sides)
        result["ratio"] = statistics.median(b / a for a, b in zip(calls, theirs))
        result["ratio_of_passes"] = statistics.median(b / a for a, b in zip(passes, theirs))
    if options.json:
        print(json.dumps({"rows": options.rows, "dim": options.dim, **result}))
    else:
        for name, value in result.items():
            print(f"{name:12} {value:.2f}")
    missed = options.mxnet and result["ratio"] < GOAL and not options.no_goals
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
