"""One call of `strata compare`: how it is made, what it cost, what it reported."""

import contextlib
import dataclasses
import json
import os
import resource
import shlex
import subprocess

FP16 = "+push.codec=FP16+pull.codec=FP16"  # of a mode, both ways
JOBS = "bench/experiments"  # paths are relative to the repository's root, where all of it is run
# In the reduced set: everything runs, no figure means much.
REDUCED = ("data.limit_test=200", "evaluation.every_steps=0")


class ExperimentError(Exception):
    """One line for the user."""


@dataclasses.dataclass(frozen=True)
class Campaign:
    """ranks and batch: the job's, 256 samples a step unless batches are the question."""

    name: str
    modes: tuple
    ranks: int
    batch: int
    where: tuple  # options of strata compare: --cluster FILE, or those of a live cluster
    seeds: int = 5
    settings: tuple = ()
    tune: tuple = ()
    margin: float = 0.005
    model: str = "lenet5"
    pictures: tuple = ("accuracy_by_samples",)
    timed: bool = True  # whether its times mean anything
    tries: bool = False  # settings to choose from, for a campaign that follows
    # Samples and epochs of the reduced set.
    reduced_train: int = 2048
    reduced_epochs: int = 1

    def arguments(self, reduced=False):
        """The arguments of `strata compare`, without --out."""
        settings = (f"ranks={self.ranks}", f"data.batch_per_rank={self.batch}", *self.settings)
        seeds, tune = self.seeds, self.tune
        if reduced:
            seeds = min(2, seeds)
            settings += (*REDUCED, f"epochs={self.reduced_epochs}",
                         f"data.limit_train={512 if self.tries else self.reduced_train}")
            tune = tuple(choice.split(",", maxsplit=1)[0] for choice in tune)
        arguments = [f"{JOBS}/{self.model}.textproto", "--modes", ",".join(self.modes), "--seeds",
                     str(seeds), "--margin", f"{self.margin:g}"]
        for choice in tune:
            arguments += ["--tune", choice]
        arguments += self.where
        for setting in settings:
            arguments += ["--set", setting]
        return arguments

    def command(self, experiment):
        """As a user types it."""
        return shlex.join(["strata", "compare", *self.arguments(), "--out",
                           f"out/{experiment}/{self.name}"])


def _children_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@contextlib.contextmanager
def count_cpu(folder):
    """Adds the processor time of the processes that are started within to FOLDER.cpu."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    before = _children_s()
    yield
    with open(folder + ".cpu", "a", encoding="utf-8") as out:
        out.write(f"{_children_s() - before:.1f}\n")


def run(strata, campaign, folder, reduced=False):
    """Makes the runs that FOLDER lacks, shows how far they are, and adds the processor time to
    FOLDER.cpu. Errors: ExperimentError."""
    command = [strata, "compare", *campaign.arguments(reduced), "--out", folder]
    with count_cpu(folder):
        done = subprocess.run(command, check=False)
    if done.returncode != 0:
        raise ExperimentError(f"{shlex.join(command)}: exit status {done.returncode}")


def load(folder):
    """The report of the campaign in FOLDER. Errors: ExperimentError where it has none."""
    path = os.path.join(folder, "report.json")
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise ExperimentError(f"{path}: {error}") from error


def records(folder):
    """All run records of the campaign in FOLDER, those of tuning left out, by mode and seed."""
    found = {}
    reported = {(mode["mode"], run["seed"]) for mode in load(folder)["modes"]
                for run in mode["runs"]}
    runs = os.path.join(folder, "runs")
    for name in sorted(os.listdir(runs)):
        with open(os.path.join(runs, name), encoding="utf-8") as file:
            record = json.load(file)
        key = record["mode"], int(record["seed"])
        if key in reported:
            found[key] = record
    return found


def cpu_s(folder):
    """Seconds of processor time that all calls for FOLDER took."""
    with open(folder + ".cpu", encoding="utf-8") as file:
        return sum(float(line) for line in file)
