"""What befalls ranks of faults.py and array_faults.py."""

import multiprocessing
import os
import signal
import sys

import strata


def use_in_child():
    """What a process that a rank forked gets."""
    try:
        strata.report(loss=1.0)
    except strata.OutOfOrder as error:
        print("child:", error)
    try:
        strata.Session({"w": [1.0]})
    except strata.OutOfOrder as error:
        print("child:", error)


def befall(what):
    if what == "exception":
        raise ValueError("no such\nthing")
    if what == "own-hook":
        # As libraries for colourful tracebacks do.
        sys.excepthook = lambda kind, error, trace: print("a hook of its own:", error)
        raise ValueError("no such thing")
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if what == "os-exit":
        os._exit(7)
    if what == "sys-exit":
        sys.exit(3)
    if what in ("sys-exit-text", "sys-exit-alone"):
        sys.exit("no data")
    if what == "raise-exit":
        raise SystemExit(4)
    if what == "raise-exit-text":
        raise SystemExit("no such file")
    if what == "fork":
        if os.fork() == 0:
            use_in_child()
            sys.exit(0)
        os.wait()
    if what == "spawn":
        child = multiprocessing.get_context("spawn").Process(target=use_in_child)
        child.start()
        child.join()


def befall_before(what):
    """Before there is a session."""
    if what == "before":
        open("no/such/file")
    if what == "before-own-hook":
        sys.excepthook = lambda kind, error, trace: print("a hook of its own:", error)
        raise ValueError("no such\nthing")


def exit_and_catch_it():
    try:
        sys.exit(3)
    except SystemExit:
        pass


ENDS = {
    "end-caught-exit": exit_and_catch_it,
    "end-sys-exit-0": lambda: sys.exit(0),
    "end-sys-exit-none": lambda: sys.exit(None),
    "end-raise-exit-0": lambda: (_ for _ in ()).throw(SystemExit(0)),
    "end-raise-exit-5": lambda: (_ for _ in ()).throw(SystemExit(5)),
}
