"""The rank of checkpoints.py: ELEMENTS STEPS OUT [STEP]. Notes when training began, the end of each
step, and a sum of the weights after the last and after STEP."""

import json
import sys
import time
import zlib

import numpy as np

import strata


def main():
    elements, steps, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    sum_at = {steps, *map(int, sys.argv[4:])}
    params = {"w": np.linspace(-1, 1, elements, dtype="f4")}
    gradients = {"w": np.linspace(1, -2, elements, dtype="f4")}
    optimizer = strata.Adam(lr=1e-3)
    with strata.Session(params, optimizer, total_steps=steps, can_resume=True) as session:
        ready = time.time()
        times, sums = [], {}
        for step in range(session.first_step, steps):
            session.step(gradients)
            weights = session.weights()
            times.append(time.time())
            if step + 1 in sum_at:
                sums[step + 1] = zlib.crc32(np.ascontiguousarray(weights["w"]))
        noted = {"ready": ready, "first": session.first_step, "steps": times, "sums": sums}
    with open(out, "w", encoding="utf-8") as file:
        json.dump(noted, file)


if __name__ == "__main__":
    main()
