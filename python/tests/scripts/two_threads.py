"""Rank 0 waits in one thread for a step of rank 1, and calls from a second one meanwhile."""

import pathlib
import threading
import time

import numpy as np

import strata

session = strata.Session({"w": np.zeros(3, "f4")}, strata.SGD(lr=0.1))
flag = pathlib.Path("refused")
if session.rank == 0:
    session.step({"w": [1, 1, 1]})
    waiting = threading.Thread(target=session.weights)
    waiting.start()
    time.sleep(0.5)
    try:
        session.step({"w": [1, 1, 1]})
    except strata.OutOfOrder as error:
        print(error)
    flag.touch()
    waiting.join()
else:
    deadline = time.monotonic() + 30
    while not flag.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    session.step({"w": [1, 1, 1]})
session.close()
