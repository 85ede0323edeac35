"""The rank of node_death.py: ELEMENTS HOST:PORT MODE. Computes nothing: each element of each
gradient is 1. Tells the port of each step's end: its rank, its process, the step, and whether
weights are right, of which it looks at a few."""

import os
import socket
import sys

import numpy as np

import strata

STEPS = 1 << 22  # until the weights, of which each step takes 1, are no whole numbers any more
EVERY = 4099


def main():
    elements, address, in_sync = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "sync"
    host, port = address.split(":")
    note = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    params = {"w": np.zeros(elements, "f4")}
    gradients = {"w": np.ones(elements, "f4")}
    with strata.Session(params, strata.SGD(lr=1.0), total_steps=STEPS, can_resume=True) as session:
        for step in range(session.first_step, STEPS):
            session.step_ranks(step)
            session.step(gradients)
            seen = session.weights()["w"][::EVERY]
            # Without others to wait for, weights have also what these have pushed meanwhile.
            right = (seen == -(step + 1)) if in_sync else (seen <= -(step + 1))
            words = session.rank, os.getpid(), step, int(right.all())
            note.sendto(" ".join(map(str, words)).encode(), (host, int(port)))


if __name__ == "__main__":
    main()
