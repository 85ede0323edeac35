"""Linear regression with NumPy alone; prints the largest error of a weight, as bits.

usage: numpy_session.py sgd|mean
"""

import sys

import numpy as np

import strata

TRUE = np.arange(8, dtype="f4")
how = sys.argv[1]


def batch(rank, step):
    random = np.random.default_rng([rank, step])
    x = random.normal(size=(16, 8)).astype("f4")
    return x, x @ TRUE + 3


def gradients(w, x, y):
    e = x @ w["w"] + w["b"] - y
    return {"w": x.T @ e / len(x), "b": np.array([e.mean()])}, float((e * e).mean())


params = {"w": np.zeros(8, "f4"), "b": np.zeros(1, "f4")}
optimizer = strata.SGD(lr=0.1) if how == "sgd" else strata.Mean()
with strata.Session(params, optimizer=optimizer) as session:
    for step in range(200):
        w = session.weights() if how == "sgd" else params
        mine, loss = gradients(w, *batch(session.rank, step))
        means = session.step(mine, loss=loss)
        if how == "mean":
            for name, mean in means.items():
                params[name] -= np.float32(0.1) * mean
w = session.weights() if how == "sgd" else params
worst = max(np.abs(w["w"] - TRUE).max(), abs(w["b"][0] - 3))
assert worst < 1e-3, w
print("largest error", float(worst).hex())
