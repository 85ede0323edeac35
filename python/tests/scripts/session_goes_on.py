"""NumPy with an optimizer of the script's own, whose state each rank gives to checkpoints. Rank 1
dies once, when there is a checkpoint."""

import glob
import os
import pathlib
import signal
import sys
import time

import numpy as np

import strata

checkpoints, die_at = sys.argv[1], int(sys.argv[2])
params = {"w": np.full(4, 1.0, "f4")}
momentum = np.zeros(4, "f4")
with strata.Session(params, strata.Mean(), can_resume=True, keeps_state=True) as session:
    state = session.saved_state
    assert (state is None) == (session.first_step == 0)
    if state is not None:
        params["w"][:], momentum[:] = np.frombuffer(state, "f4").reshape(2, 4)
    for step in range(session.first_step, 12):
        if step == die_at and session.rank == 1 and not pathlib.Path("met").exists():
            while not glob.glob(f"{checkpoints}/*/manifest.json"):
                time.sleep(0.02)
            pathlib.Path("met").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        gradient = np.cos(params["w"] * (step + session.rank))
        mean = session.step({"w": gradient})["w"]
        momentum = np.float32(0.9) * momentum + mean
        params["w"] -= np.float32(0.1) * momentum
        if session.checkpoint_due:
            session.save_state(np.stack([params["w"], momentum]).tobytes())
        assert not session.checkpoint_due
np.save(f"rank{session.rank}.npy", params["w"])
print("first step", session.first_step)
