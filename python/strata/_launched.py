"""The program of a rank of `strata.launch`: calls the function stored in its folder, and writes the
result there."""

from __future__ import annotations

import os
import pickle
import sys

from strata import _lifetime, _presence
from strata.launching import pickled


def main(folder: str) -> None:
    with open(os.path.join(folder, "path.pkl"), "rb") as file:
        sys.path += [place for place in pickle.load(file) if place not in sys.path]
    with open(os.path.join(folder, "call.pkl"), "rb") as file:
        function, arguments = pickle.load(file)
    result = function(*arguments)
    _presence.take_part_if_none_was()
    _lifetime.finish()
    # Pickled now, as a model has its final weights; under its name only once it is whole.
    path = os.path.join(folder, f"{os.environ['RANK']}.pkl")
    with open(path + ".part", "wb") as file:
        file.write(pickled("what the function returned", result))
    os.rename(path + ".part", path)
