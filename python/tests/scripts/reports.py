"""Reports one thing after the other of the same step, some again, and one before the first step."""

import numpy as np

import strata

with strata.Session({"w": np.zeros(4, "f4")}, strata.SGD(lr=0.1)) as session:
    strata.report(before=0.5)
    for step in range(1, 21):
        session.step({"w": np.ones(4, "f4")})
        if step == 10:
            strata.report(train_loss=0.1)
            strata.report(test_accuracy=0.25)
            strata.report(test_loss=2.0)
            strata.report(train_loss=0.1)
            strata.report(train_loss=0.2)
