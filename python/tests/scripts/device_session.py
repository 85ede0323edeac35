"""Trains arrays by gradients of their own weights; prints a checksum of all weights on the way.

usage: device_session.py KIND HOW [own_device]
  KIND  where arrays lie: host; on the fake device with __cuda_array_interface__ (interface), with
        a stream that is late (stream), with DLPack alone (dlpack), all of these (mixed), or as
        PyTorch has them (torch)
  HOW   sgd: the job has the optimizer, of the script; job: of its own; mean: the script has it
  own_device: each rank has one of two GPUs
"""

import contextlib
import hashlib
import os
import sys

import numpy as np

import strata

kind, how, *own_device = sys.argv[1:]
LATE_MS = 20
SHAPES = {"w": (5, 3), "long": (3000,), "b": ()}
order = contextlib.nullcontext()
if kind != "host":
    import fake_device

    if own_device:
        fake_device.use(int(os.environ["LOCAL_RANK"]), "devices=2")
    late = fake_device.new_stream()
if kind == "torch":
    import torch

    order = fake_device.use_for_torch()


def device_array(values, kind):
    if kind == "host":
        return values
    if kind == "torch":
        return torch.from_numpy(values)
    if kind == "stream":
        fake_device.delay(late, LATE_MS)
        return fake_device.Array(values, late)
    if kind == "dlpack":
        exported = fake_device.Exported(values)
        exported.ms = LATE_MS
        return exported
    return fake_device.Array(values)


def array(values, number):
    return device_array(
        values, ("interface", "stream", "dlpack")[number % 3] if kind == "mixed" else kind
    )


def read(found):
    if kind == "host":
        return np.array(found)
    if kind == "torch":
        assert isinstance(found, torch.Tensor)
        return found.clone().numpy()
    return fake_device.values_of(found)


def first(shape, number):
    # All ranks take rank 0's initial values.
    rank = int(os.environ["RANK"])
    return np.full(shape, 0.25 * (number + 1) + rank, "f4")


def main():
    params = {}
    for number, (name, shape) in enumerate(SHAPES.items()):
        # Arrays from DLPack are read-only, and mean() writes once.
        values = first(shape, number)
        is_plain = how == "mean" and kind in ("dlpack", "mixed")
        params[name] = fake_device.Array(values) if is_plain else array(values, number)
    optimizers = {"sgd": strata.SGD(lr=0.125, momentum=0.5), "mean": strata.Mean(), "job": None}
    seen = hashlib.sha256()
    with strata.Session(params, optimizer=optimizers[how]) as session:
        own = {name: read(params[name]) for name in SHAPES} if how == "mean" else {}
        for step in range(6):
            if how != "mean":
                own = {name: read(found) for name, found in session.weights().items()}
            for name in SHAPES:
                seen.update(own[name].tobytes())
            gradients = {}
            for number, (name, shape) in enumerate(SHAPES.items()):
                angle = np.arange(own[name].size, dtype="f4") + 11 * session.rank + 101 * step
                wave = np.sin(angle * np.float32(0.37)).reshape(shape)
                gradients[name] = array(np.asarray(0.25 * own[name] + wave, "f4"), number)
            # Not one of the ranks' gradients counts once.
            means = session.step(gradients, samples=2 + session.rank)
            if kind == "stream" and how != "mean":
                # The job goes on in the stream of the gradients.
                arena = session.weights()["w"]
                assert arena.__cuda_array_interface__["stream"] == late
            for name, mean in means.items():
                own[name] = own[name] - np.float32(0.125) * read(mean)
    if how != "mean":
        own = {name: read(found) for name, found in session.weights().items()}
        # The final ones lie in memory that is the rank's own.
        assert kind != "stream" or session.weights()["w"].address != arena.address
    for name in SHAPES:
        seen.update(own[name].tobytes())
    print("rank", session.rank, "weights", seen.hexdigest())


with order:
    main()
