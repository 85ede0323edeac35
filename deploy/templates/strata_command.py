#!python
"""Becomes the program `strata` that lies in the package; pip puts it beside `python`."""

import importlib.util
import os
import sys

spec = importlib.util.find_spec("strata")
folders = list(spec.submodule_search_locations or []) if spec else []
programs = [os.path.join(folder, "_bin", "strata") for folder in folders]
program = next(filter(os.path.exists, programs), None)
if program is None:
    sys.exit("strata: error: the package strata-train is not whole; install it again")
# `strata run` starts scripts with python3: this one, also where its venv is not activated.
here = os.path.dirname(sys.executable)
os.environ["PATH"] = os.pathsep.join(filter(None, (here, os.environ.get("PATH"))))
os.execv(program, [program] + sys.argv[1:])
