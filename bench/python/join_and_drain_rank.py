"""The rank of join_and_drain.py: ELEMENTS HOST:PORT PAUSE_S. Rests for PAUSE_S in each step, as if
it computed on a device; each element of each gradient is 1. Tells the port of each step's end: its
rank, its process, the step, and whether weights are right, of which it looks at a few."""

import os
import socket
import sys
import time

import numpy as np

import strata

STEPS = 1 << 22  # until the weights, of which each step takes 1, are no whole numbers any more
EVERY = 4099


def main():
    elements, address, pause_s = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    host, port = address.split(":")
    note = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    params = {"w": np.zeros(elements, "f4")}
    gradients = {"w": np.ones(elements, "f4")}
    with strata.Session(params, strata.SGD(lr=1.0), total_steps=STEPS, can_resume=True) as session:
        for step in range(session.first_step, STEPS):
            if not session.step_ranks(step).makes_it:
                break
            time.sleep(pause_s)
            session.step(gradients)
            seen = session.weights()["w"][::EVERY]
            words = session.rank, os.getpid(), step, int((seen == -(step + 1)).all())
            note.sendto(" ".join(map(str, words)).encode(), (host, int(port)))


if __name__ == "__main__":
    main()
