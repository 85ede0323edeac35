"""A task that fits a line, for live ranks and virtual time; --fault says what goes wrong.

usage: line_task.py [--fault NAME] [--lr LR]
"""

import argparse
import os
import signal
import time

import numpy as np

import strata

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="")
parser.add_argument("--lr", type=float, default=0.05)
options = parser.parse_args()
TRUE = np.arange(8, dtype="f4")
DATA = np.random.default_rng(7).normal(size=(256, 8)).astype("f4")
TEST = np.random.default_rng(8).normal(size=(64, 8)).astype("f4")


def first(seed):
    random = np.random.default_rng(seed)
    return {"w": random.normal(size=8).astype("f4"), "b": np.zeros(1, "f4")}


def gradients(weights, step):
    x = DATA[step.samples(DATA)]
    noise = 0.1 * step.random().normal(size=len(x)).astype("f4")
    e = x @ weights["w"] + weights["b"] - (x @ TRUE + 3 + noise)
    mine = {"w": x.T @ e / np.float32(len(x)), "b": np.array([e.mean()])}
    if options.fault == "raises" and step.number == 3:
        raise ValueError("no such thing")
    if options.fault == "always":
        raise ValueError("never any such thing")
    if options.fault == "shape":
        mine["w"] = mine["w"][:3]
    if options.fault == "missing":
        del mine["b"]
    if options.fault == "nan" and step.number == 3:
        mine["w"][0] = float("nan")
    if options.fault == "nan-loss" and step.number == 3:
        return mine, len(x), float("nan")
    if options.fault == "samples":
        return mine, 0, 0.0
    if options.fault == "returns":
        return mine
    if options.fault == "hangs" and step.number == 3:
        with open("hanging.part", "w") as file:
            file.write(str(os.getpid()))
        os.rename("hanging.part", "hanging")
        time.sleep(1000)
    if options.fault == "dies" and step.number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return mine, len(x), float((e * e).mean())


def evaluate(weights):
    if options.fault == "value":
        return {"error": "much"}
    if options.fault == "nan-value":
        return {"error": float("inf")}
    if options.fault == "name":
        return {"a b": 1.0}
    e = TEST @ (weights["w"] - TRUE) + (weights["b"] - 3)
    return {"error": float((e * e).mean()), "largest": float(np.abs(e).max())}


task = strata.Task(
    params=first,
    gradients=gradients,
    evaluate=evaluate,
    batch=8,
    steps_per_epoch=10,
    epochs=3,
    evaluate_every=5,
    optimizer=strata.SGD(lr=options.lr, momentum=0.5),
)
if __name__ == "__main__":
    print("largest error", max(np.abs(task.run()["w"] - TRUE)))
