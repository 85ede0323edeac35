"""The rank of checkpoints.py: ELEMENTS STEPS OUT. Notes when training began and each step's end."""

import json
import sys
import time
import zlib

import numpy as np

import strata


def main():
    elements, steps, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    params = {"w": np.linspace(-1, 1, elements, dtype="f4")}
    gradients = {"w": np.linspace(1, -2, elements, dtype="f4")}
    optimizer = strata.Adam(lr=1e-3)
    with strata.Session(params, optimizer, total_steps=steps, can_resume=True) as session:
        ready = time.time()
        times = []
        weights = params
        for _ in range(session.first_step, steps):
            session.step(gradients)
            weights = session.weights()
            times.append(time.time())
        noted = {"ready": ready, "first": session.first_step, "steps": times,
                 "sum": zlib.crc32(np.ascontiguousarray(weights["w"]))}
    with open(out, "w", encoding="utf-8") as file:
        json.dump(noted, file)


if __name__ == "__main__":
    main()
