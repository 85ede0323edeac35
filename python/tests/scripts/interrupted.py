"""Launches a job that runs for minutes, and says when each of its ranks has begun."""

import pathlib
import sys
import time

import numpy as np
import strata


def wait(folder):
    session = strata.Session({"w": np.zeros(1, "f4")}, strata.Mean())
    pathlib.Path(folder, f"began-{session.rank}").touch()
    if session.rank == 0:
        time.sleep(120)
    session.step({"w": [0.0]})  # rank 1 is here, in a call of the library


if __name__ == "__main__":
    import interrupted

    strata.launch(interrupted.wait, sys.argv[1], options=sys.argv[2:])
