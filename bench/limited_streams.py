"""What several connections per peer gain where a network limits each stream.

usage: limited_streams.py STRATA [--connections 1 2 4] [--mbytes-per-s 1] [--steps 30] [--json]

One server and two nodes on this machine, LeNet-5, mode sync over TCP. Between nodes and server
stands a relay of this program's that lets through so many bytes a second of each connection, each
way, and has no limit of its own. The same job runs with each number of connections; all must end
with the same weights, bit for bit. Prints the time of a step, its bound (a node's bytes one way
over what its connections let through together) and the ratio to the first number of connections.
"""

import argparse
import json
import os
import socket
import tempfile
import threading
import time

from cluster import Cluster, fail, weights

JOB = """
name: "{name}"
model {{ zoo: "lenet5" }}
data {{ synthetic {{ train_samples: 64 test_samples: 8 }} batch_per_rank: 2 }}
ranks: 2
ranks_per_node: 1
epochs: 100000
max_steps: {steps}
chunk_elements: 2048
window: 16
same_host: TCP
connections: {connections}
evaluation {{ every_epochs: 100000 }}
metrics {{ every_steps: 5 }}
"""
WEIGHTS_BYTES = 61706 * 4
BLOCK_BYTES = 4096
# The address that nodes connect to; the server itself listens at 127.0.0.1.
ADVERTISED = "127.0.0.2"


class Relay:
    """Passes connections on to the same port of 127.0.0.1, each way so many bytes a second."""

    def __init__(self, port, bytes_per_s):
        self.port = port
        self.bytes_per_s = bytes_per_s
        self.listening = socket.create_server((ADVERTISED, port))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listening.accept()
            far = socket.create_connection(("127.0.0.1", self.port))
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=ends, daemon=True).start()

    def carry(self, source, sink):
        free_at = time.monotonic()
        try:
            while block := source.recv(BLOCK_BYTES):
                now = time.monotonic()
                # Unused rate is lost, except one block: no bursts.
                free_at = max(free_at, now - BLOCK_BYTES / self.bytes_per_s)
                free_at += len(block) / self.bytes_per_s
                if free_at > now:
                    time.sleep(free_at - now)
                sink.sendall(block)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def start(cluster, bytes_per_s):
    """Two nodes that reach the server through a relay."""
    _, ready = cluster.start("coordinator", "--listen", "127.0.0.1:0", "--insecure", "--state",
                             os.path.join(cluster.scratch, "state"))
    cluster.address = ready["address"]
    cluster.keys = ["--insecure"]
    _, ready = cluster.start("server", "--coordinator", cluster.address, "--insecure", "--name",
                             "s0", "--listen", "127.0.0.1", "--advertise", ADVERTISED)
    for port in ready["ports"].split(","):
        Relay(int(port), bytes_per_s)
    for name in ("w0", "w1"):
        cluster.start("worker", "--coordinator", cluster.address, "--insecure", "--name", name,
                      "--slots", "1", "--runs", cluster.runs)


def run(cluster, connections, steps):
    """Trains to the end; returns seconds per step and the hash of the final weights."""
    name = f"over-{connections}"
    run_dir = cluster.submit(name, JOB.format(name=name, steps=steps, connections=connections))
    seen = [(time.monotonic(), status["progress"]["step"])
            for status in cluster.watch(name, 0.05, 300)]
    # Between the first sight of a step and the first sight of the last one.
    begin = next(sight for sight in seen if sight[1] > 0)
    end = next(sight for sight in seen if sight[1] == seen[-1][1])
    if end[1] == begin[1]:
        fail(f"{name}: over before it was seen twice; more --steps are needed")
    return (end[0] - begin[0]) / (end[1] - begin[1]), weights(run_dir)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--mbytes-per-s", type=float, default=1)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rate = options.mbytes_per_s * 1e6
    with tempfile.TemporaryDirectory() as scratch:
        with Cluster(options.strata, scratch) as cluster:
            start(cluster, rate)
            runs = [(c, *run(cluster, c, options.steps)) for c in options.connections]
    if len({hashed for _, _, hashed in runs}) != 1:
        fail("the weights depend on the number of connections")
    rows = [{"connections": c, "step_ms": s * 1e3, "bound_ms": WEIGHTS_BYTES / (rate * c) * 1e3,
             "ratio": s / runs[0][1]} for c, s, _ in runs]
    if options.json:
        print(json.dumps({"mbytes_per_s": options.mbytes_per_s, "runs": rows}, indent=2))
        return
    print(f"{options.mbytes_per_s:g} MB/s per connection; weights equal, bit for bit")
    for row in rows:
        print("{connections} connections: {step_ms:.1f} ms a step (bound {bound_ms:.1f}), "
              "{ratio:.3f} x".format(**row))


if __name__ == "__main__":
    main()
