"""200 steps of 20 samples, after the 60th of which rank 0 reports a measurement."""

import numpy as np

import strata

with strata.Session({"w": np.zeros(3, "f4")}, strata.SGD(0.1)) as session:
    for step in range(200):
        session.step({"w": np.ones(3, "f4")}, samples=20, loss=1.0)
        if step == 59:
            strata.report(test_accuracy=0.5)
