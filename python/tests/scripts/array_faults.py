"""A short training of an array in which something befalls rank 1, or each rank as it ends: ranks
that need no PyTorch begin sooner.

usage: array_faults.py WHAT
"""

import os
import sys

import numpy as np
from befalls import ENDS, befall, befall_before

import strata

STEPS, WHEN = 20, 5


def main(what):
    session = strata.Session({"w": np.zeros(8, "f4")}, strata.SGD(lr=0.1))
    for step in range(STEPS):
        if session.rank == 1 and step == WHEN:
            befall(what)
        session.step({"w": session.weights()["w"] - 1})
    print("came to the end")


if __name__ == "__main__":
    if os.environ["RANK"] == "1":
        befall_before(sys.argv[1])
    main(sys.argv[1])
    ENDS.get(sys.argv[1], lambda: None)()
