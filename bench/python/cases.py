"""What against_ddp.py compares: models, how each side trains them, and the goals."""

from dataclasses import dataclass, field

# The figure of a case, from Strata's value a and the peer's b.
RATIO = "ratio of seconds"
US_PER_TENSOR = "us per tensor"
RATIO_OF_BYTES = "ratio of bytes"


@dataclass
class Case:
    ranks: int
    words: list  # of rank.py, for both sides
    goal: float  # the figure is to be at most this
    peer: str = "ddp"
    figure: str = RATIO
    lab: bool = False  # a host for each rank, which is a node, and one for each of as many servers
    run: list = field(default_factory=list)  # options of `strata run`
    ours: list = field(default_factory=list)  # words of rank.py for Strata alone
    theirs: list = field(default_factory=list)  # words of rank.py for the peer alone
    tolerance: float = 1e-3  # between the changes of the weights, relative


TRANSFORMER = ["transformer", "--steps", "6", "--batch", "1"]
EXCHANGE_SHAPED = ["exchange", "--steps", "10", "--mib", "64"]
# Rounding grows a thousandfold within a few steps of it: batch normalisation of 16 values.
RESNET = ["resnet18", "--batch", "16", "--sketch-after", "2"]
FP16 = {
    "run": ["--set", "push.codec=FP16", "--set", "pull.codec=FP16"],
    "theirs": ["--hook", "fp16"],
    "tolerance": 1e-2,
}
# The optimizer on the servers in sync mode, where values can be compared.
ON_SERVERS = {
    "figure": RATIO_OF_BYTES,
    "run": ["--servers", "1"],
    "ours": ["--optimizer-on", "servers"],
    # AdamW's first steps divide gradients by their own size: those that are nearly 0 by noise.
    "tolerance": 1e-2,
}
LARGE = ["transformer-100m", "--steps", "3", "--batch", "1", "--adamw"]

CASES = {
    "alone": Case(
        1,
        ["lenet", "--steps", "100"],
        1 / 0.97,
        "plain",
        run=["--set", "exchange=NONE", "--servers", "0"],
    ),
    "exchange": Case(4, ["exchange", "--steps", "10"], 0.40),
    "lenet": Case(4, ["lenet", "--steps", "60"], 1 / 1.30),
    "resnet18-2": Case(2, [*RESNET, "--steps", "6"], 1 / 1.05),
    "resnet18-4": Case(4, [*RESNET, "--steps", "5"], 1 / 1.05),
    "transformer": Case(4, TRANSFORMER, 1 / 1.15),
    "many": Case(2, ["many", "--steps", "40"], 1.0),
    "per-tensor": Case(2, ["many", "--steps", "100"], 5.0, "plain", US_PER_TENSOR),
    "shaped": Case(4, EXCHANGE_SHAPED, 1 / 1.30, lab=True),
    "shaped-transformer": Case(4, TRANSFORMER, 1 / 1.30, lab=True),
    "shaped-fp16": Case(4, EXCHANGE_SHAPED, 1 / 1.20, lab=True, **FP16),
    "shaped-transformer-fp16": Case(4, TRANSFORMER, 1 / 1.20, lab=True, **FP16),
    "memory": Case(4, LARGE, 0.6, **ON_SERVERS),
    "memory-views": Case(4, LARGE, 0.6, theirs=["--views"], **ON_SERVERS),
}
