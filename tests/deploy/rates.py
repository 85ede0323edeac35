"""A program that names its optimizer when it starts and says the learning rate of each step.

  rates.py LIBRARY OPTIMIZER WHAT

Every mean gradient is -1: the weights are the sum of the rates that updates had. WHAT: "same", or
"node" or "rank": the second one says others from step 3 on.
"""

import ctypes
import os
import sys

STEPS, ELEMENTS, SAMPLES = 8, 300, 4
RATES = [0.5, 0.25, 0.125, 1.0]


class Tensor(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p),
                ("shape", ctypes.POINTER(ctypes.c_uint64)), ("dimensions", ctypes.c_uint32),
                ("lr_multiplier", ctypes.c_float), ("decay_multiplier", ctypes.c_float),
                ("averaged", ctypes.c_int)]


class Facts(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("samples_per_epoch", ctypes.c_uint64),
                ("total_steps", ctypes.c_uint64), ("takes_first_weights", ctypes.c_int),
                ("optimizer", ctypes.c_char_p), ("says_rates", ctypes.c_int)]


library = ctypes.CDLL(sys.argv[1])
library.strata_error_text.restype = ctypes.c_char_p
library.strata_weights.restype = ctypes.POINTER(ctypes.c_float)
library.strata_gradients.restype = ctypes.POINTER(ctypes.c_float)


def check(code):
    if code != 0:
        sys.exit(library.strata_error_text().decode())


def rate_of(step):
    number = int(os.environ["LOCAL_RANK"] if sys.argv[3] == "rank" else os.environ["RANK"])
    other = sys.argv[3] != "same" and number > 0 and step >= 3
    return RATES[step % len(RATES)] * (2 if other else 1)


client = ctypes.c_void_p()
check(library.strata_connect(os.environ["STRATA_LAUNCH"].encode(), ctypes.byref(client)))
shape = (ctypes.c_uint64 * 1)(ELEMENTS)
tensor = Tensor(ctypes.sizeof(Tensor), b"w", shape, 1, 1.0, 1.0, 0)
index = ctypes.c_int32()
check(library.strata_register(client, ctypes.byref(tensor), ctypes.byref(index)))
facts = Facts(ctypes.sizeof(Facts), 0, STEPS, 0, sys.argv[2].encode() or None, 1)
check(library.strata_start(client, ctypes.byref(facts)))
for step in range(STEPS):
    check(library.strata_begin_step_at(client, SAMPLES, ctypes.c_double(rate_of(step))))
    check(library.strata_wait_all(client))
    for i in range(ELEMENTS):
        library.strata_gradients(client, 0)[i] = -SAMPLES
    check(library.strata_publish(client, 0))
    check(library.strata_finish_step(client))
check(library.strata_finish(client))
print("w =", library.strata_weights(client, 0)[ELEMENTS - 1], "seed", os.environ["STRATA_SEED"])
