"""torchft: how long training stands still when one of two replica groups is killed.

usage: torchft_death.py [--bytes 104857600] [--rounds 5] [--heartbeat-timeout-ms 5000]
                        [--down-s 1] [--seed 1] [--json]

Wants a Python with torch and torchft; torchft 0.2.0 runs with PyTorch 2.11:

    ENV=$(deploy/python_env.sh --print torch-2.11); python3 -m venv ~/torchft
    echo "$ENV/lib/python3.11/site-packages" > ~/torchft/lib/python3.11/site-packages/torch.pth
    ~/torchft/bin/pip install --no-deps torchft==0.2.0
    ~/torchft/bin/pip install opentelemetry-exporter-otlp-proto-http opentelemetry-sdk
    ~/torchft/bin/python bench/peers/torchft_death.py

It starts a lighthouse and two replica groups of one process each, on this host's CPUs over Gloo;
each step adds up gradients of --bytes that nobody computes, as the managed all-reduce does, and
commits. The optimizer is SGD. In each round replica 1 dies by SIGKILL at a moment that is drawn,
and --down-s later is started again; it gets weights from replica 0 by torchft's own transport.
Prints the time from the kill to the next step that replica 0 commits, how many steps it made and
threw away, and the time from the start of the new process to the first step that both commit.
"""

import argparse
import datetime
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time

LIMIT_S = 120
MIB = 1 << 20


def lighthouse(options):
    """Says its address and serves until it is killed."""
    from torchft._torchft import LighthouseServer
    server = LighthouseServer(bind="127.0.0.1:0", min_replicas=1, join_timeout_ms=100,
                              heartbeat_timeout_ms=options.heartbeat_timeout_ms)
    print(server.address(), flush=True)
    threading.Event().wait()


def start(*arguments):
    """This program in another role; what it logs is left out."""
    return subprocess.Popen([sys.executable, os.path.abspath(__file__), *map(str, arguments)],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def replica(options):
    """Says `STEP PARTICIPANTS COMMITTED` after each step, until it is killed."""
    import torch
    import torch.distributed as dist
    from torchft import Manager, ProcessGroupGloo
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    weights = torch.full((options.bytes // 4,), 0.5)
    gradient = torch.empty_like(weights)

    def load(state):
        weights.copy_(state["weights"])

    timeout = datetime.timedelta(seconds=30)
    manager = Manager(pg=ProcessGroupGloo(timeout=timeout), load_state_dict=load,
                      state_dict=lambda: {"weights": weights}, min_replica_size=1, timeout=timeout,
                      replica_id=f"replica{options.replica}_", store_addr="127.0.0.1",
                      store_port=store.port, rank=0, world_size=1, hostname="127.0.0.1",
                      lighthouse_addr=options.lighthouse)
    while True:
        manager.start_quorum()
        gradient.fill_(1.0)
        manager.allreduce(gradient).wait()
        committed = manager.should_commit()
        if committed:
            weights.sub_(gradient)
        print(manager.current_step(), manager.num_participants(), int(committed), flush=True)


class Replica:
    """A replica group's process and the steps that it has told of."""

    def __init__(self, number, options, address):
        self.process = start("--role", "replica", "--replica", number, "--lighthouse", address,
                             "--bytes", options.bytes)
        self.steps = []  # (when, step, participants, committed)
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            words = line.split()
            if len(words) == 3 and all(word.isdigit() for word in words):
                with self._changed:
                    self.steps.append((time.monotonic(), *map(int, words)))
                    self._changed.notify()

    def await_step(self, after, is_it, count=1):
        """The steps after a moment, up to the count-th one that is it."""
        def found():
            later = [step for step in self.steps if step[0] > after]
            at = [place for place, step in enumerate(later) if is_it(step)]
            return later[:at[count - 1] + 1] if len(at) >= count else None
        with self._changed:
            if not self._changed.wait_for(lambda: found() is not None, LIMIT_S):
                sys.exit(f"torchft_death: no such step within {LIMIT_S} s; the last was "
                         f"{self.steps[-1:]}")
            return found()


def of_both(step):
    return step[2] == 2 and step[3] == 1


def committed(step):
    return step[3] == 1


def measure(options, address):
    """Returns the undisturbed step's seconds and the rounds."""
    draw = random.Random(options.seed)
    replicas = [Replica(number, options, address) for number in range(2)]
    rounds = []
    try:
        begin = time.monotonic()
        replicas[0].await_step(begin, of_both, 3)
        ends = [step[0] for step in replicas[0].await_step(time.monotonic(), of_both, 12)]
        step_s = statistics.median(b - a for a, b in zip(ends, ends[1:]))
        for number in range(options.rounds):
            replicas[0].await_step(time.monotonic(), of_both, 3)
            time.sleep(draw.uniform(0, 2 * step_s))
            replicas[1].process.kill()
            killed = time.monotonic()
            replicas[1].process.wait()
            until = replicas[0].await_step(killed, committed)
            alone = replicas[0].await_step(killed, lambda step: step[2] == 1 and step[3] == 1)
            thrown = sum(not committed(step) for step in alone)
            time.sleep(options.down_s)
            begin = time.monotonic()
            replicas[1] = Replica(1, options, address)
            back = replicas[0].await_step(begin, of_both)[-1][0] - begin
            ends = [step[0] for step in replicas[0].steps if committed(step)]
            ends = ends[max(sum(end <= killed for end in ends) - 1, 0):]
            rounds.append({"next_step_s": until[-1][0] - killed,
                           "alone_s": alone[-1][0] - killed, "thrown_away": thrown,
                           "longest_s": max(b - a for a, b in zip(ends, ends[1:])),
                           "back_s": back})
            if not options.json:
                print(f"{number}: next step after {rounds[-1]['next_step_s']:.3f} s, alone after "
                      f"{rounds[-1]['alone_s']:.3f} s, {thrown} thrown away, both after "
                      f"{back:.2f} s", flush=True)
    finally:
        for one in replicas:
            one.process.kill()
            one.process.wait()
    return step_s, rounds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bytes", type=int, default=100 * MIB)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--heartbeat-timeout-ms", type=int, default=5000)
    parser.add_argument("--down-s", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--role", choices=("lighthouse", "replica"), help=argparse.SUPPRESS)
    parser.add_argument("--replica", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--lighthouse", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        return {"lighthouse": lighthouse, "replica": replica}[options.role](options)
    if importlib.util.find_spec("torchft") is None:
        print(f"{sys.executable} has no torchft")
        sys.exit(77)
    serving = start("--role", "lighthouse", "--heartbeat-timeout-ms", options.heartbeat_timeout_ms)
    try:
        address = serving.stdout.readline().strip()
        step_s, rounds = measure(options, address)
    finally:
        serving.kill()
        serving.wait()
    if options.json:
        print(json.dumps({"bytes": options.bytes, "step_s": step_s, "rounds": rounds,
                          "heartbeat_timeout_ms": options.heartbeat_timeout_ms}))
        return None
    print(f"{options.bytes / MIB:g} MiB, {len(rounds)} deaths, heartbeats missed for "
          f"{options.heartbeat_timeout_ms} ms; a step of both takes {step_s:.3f} s")
    for name, field in (("next step, s after the kill", "next_step_s"),
                        ("alone, s after the kill", "alone_s"),
                        ("steps thrown away", "thrown_away"),
                        ("both, s after the new one's start", "back_s")):
        values = [one[field] for one in rounds]
        print(f"{name}: median {statistics.median(values):.3f} ({min(values):.3f} to "
              f"{max(values):.3f})")
    return None


if __name__ == "__main__":
    main()
