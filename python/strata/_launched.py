"""What a rank of `strata.launch` does: calls the function that lies in its folder, and leaves the result there."""

from __future__ import annotations

import os
import pickle

from strata import _lifetime


def main(folder: str) -> None:
    with open(os.path.join(folder, "call.pkl"), "rb") as file:
        function, arguments = pickle.load(file)
    result = function(*arguments)
    _lifetime.finish()
    # Under its name only once it is whole.
    path = os.path.join(folder, f"{os.environ['RANK']}.pkl")
    with open(path + ".part", "wb") as file:
        pickle.dump(result, file)
    os.rename(path + ".part", path)
