"""PyTorch's Gloo: all-reduce in place over TCP, or over TLS with the keys in --tls.

usage: torch_allreduce.py PEER_OPTIONS --store FILE [--address IP] [--tls FOLDER]

PEER_OPTIONS, gate, values and their verification are those of peer.h. FOLDER has key.pem, cert.pem
and ca.pem. One thread; c10d's own process group, nothing of torch.distributed around it.
"""

import argparse
import json
import os
import socket
import struct
import sys
import time
from datetime import timedelta

import torch
from torch.distributed import FileStore, ProcessGroupGloo

CONNECT_LIMIT = timedelta(seconds=60)
ARRIVAL = struct.Struct("<dII")  # of cli/bench/gate.h


class Gate:
    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.line = socket.create_connection((host, int(port)))
        self.line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def meet(self, step_ms=-1, wrong=0):
        self.line.sendall(ARRIVAL.pack(step_ms, wrong, 0))
        if not self.line.recv(1):
            sys.exit("torch_allreduce: somebody has left")


class Values:
    """As cli/bench/gradient_values.cc makes them."""

    def __init__(self, options):
        self.rank, self.nodes = options.rank, options.nodes
        self.counted = torch.arange(options.bytes // 4, dtype=torch.int32) * 3

    def shared(self, step):
        sign = 1 if step % 2 == 0 else -1
        return sign, torch.bitwise_and(self.counted + step // 2, 63).float()

    def fill(self, step, gradient):
        sign, shared = self.shared(step)
        torch.mul(shared + self.rank, sign, out=gradient)

    def is_sum(self, step, result):
        sign, shared = self.shared(step)
        of_ranks = self.nodes * (self.nodes - 1) // 2
        return torch.equal(result, sign * (self.nodes * shared + of_ranks))


def connect(options):
    for name, file in (("PKEY", "key.pem"), ("CERT", "cert.pem"), ("CA_FILE", "ca.pem")):
        if options.tls:
            os.environ[f"GLOO_DEVICE_TRANSPORT_TCP_TLS_{name}"] = os.path.join(options.tls, file)
    os.environ["GLOO_DEVICE_TRANSPORT"] = "TCP_TLS" if options.tls else "TCP"
    how = ProcessGroupGloo._Options()
    how._devices = [ProcessGroupGloo.create_device(hostname=options.address)]
    how._timeout = CONNECT_LIMIT
    store = FileStore(options.store, options.nodes)
    return ProcessGroupGloo(store, options.rank, options.nodes, how)


def run(options):
    torch.set_num_threads(1)
    group, gate, values = connect(options), Gate(options.gate), Values(options)
    gradient = torch.empty(options.bytes // 4)
    steps_ms, wrong = [], 0
    for step in range(options.warmup + options.steps):
        values.fill(step, gradient)
        gate.meet(wrong=wrong)
        start = time.monotonic()
        group.allreduce([gradient]).wait()
        took_ms = 1e3 * (time.monotonic() - start)
        gate.meet(step_ms=took_ms)
        steps_ms.append(took_ms)
        wrong = wrong or int(not values.is_sum(step, gradient))
    gate.meet(wrong=wrong)
    print(json.dumps({"peer": "torch-gloo", "rank": options.rank,
                      "steps_ms": steps_ms[options.warmup:], "verified": not wrong}), flush=True)
    sys.exit("torch_allreduce: the values were wrong" if wrong else 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--gate", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--tls", default="")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
