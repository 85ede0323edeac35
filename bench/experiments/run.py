"""Runs the experiments of docs/RESULTS.md, judges their claims, and writes the document.

usage: run.py STRATA --out DIR [--only E1 E4] [--reduced] [--judge] [--write docs/RESULTS.md]

Goes on where it was interrupted: what DIR holds is not made again. --reduced: a few steps of
everything, which shows that all of it runs; the verdicts mean nothing. --judge: runs nothing, says
what the figures in DIR give. --write: puts figures and pictures into the document.
Exit status: 0 whatever the verdicts, 1 a run failed or is missing, 2 bad arguments.
"""

import argparse
import os
import sys

import claims
import overlap
import results
from campaign import JOBS, ExperimentError, cpu_s, load, run
from catalogue import EXPERIMENTS


def make(options, experiment):
    """All that is missing of it."""
    for campaign in experiment.campaigns:
        print(f"{experiment.name} {campaign.name}", flush=True)
        run(options.strata, campaign, os.path.join(options.out, experiment.name, campaign.name),
            options.reduced)
    if experiment.overlap:
        overlap.make(options.strata, os.path.join(options.out, experiment.name), options.reduced)


def judge(options, experiment):
    """Its reports by campaign, findings and processor seconds."""
    folder = os.path.join(options.out, experiment.name)
    reports = {campaign.name: load(os.path.join(folder, campaign.name))
               for campaign in experiment.campaigns}
    seconds = sum(cpu_s(os.path.join(folder, name)) for name in reports)
    evidence = dict(reports)
    if experiment.overlap:
        evidence["overlap"] = overlap.read(folder)
        seconds += cpu_s(os.path.join(folder, overlap.FOLDER))
    return reports, list(experiment.judge(evidence)), seconds


def write(options, judged):
    """judged: (experiment, reports, findings, processor seconds)."""
    with open(options.write, encoding="utf-8") as file:
        text = file.read()
    for experiment, reports, findings, seconds in judged:
        text = results.put_between(text, experiment.name, results.section(
            experiment, findings, reports, seconds))
        results.copy_pictures(experiment, os.path.join(options.out, experiment.name),
                              os.path.dirname(os.path.abspath(options.write)))
    if len(judged) == len(EXPERIMENTS):
        text = results.put_between(text, "summary", results.summary(
            [(experiment, findings, seconds) for experiment, _, findings, seconds in judged]))
    with open(options.write, "w", encoding="utf-8") as file:
        file.write(text)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("strata", type=os.path.abspath)
    parser.add_argument("--out", required=True, type=os.path.abspath)
    parser.add_argument("--only", nargs="+", choices=[one.name for one in EXPERIMENTS])
    parser.add_argument("--reduced", action="store_true")
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--write", type=os.path.abspath)
    options = parser.parse_args()
    if not os.path.exists(os.path.join(JOBS, "lenet5.textproto")):
        parser.error("to be run in the repository's root")
    if options.reduced and options.write:
        parser.error("--write: the reduced set has no figures to write")
    return options


def main():
    options = parse()
    judged = []
    try:
        for experiment in EXPERIMENTS:
            if options.only and experiment.name not in options.only:
                continue
            if not options.judge:
                make(options, experiment)
            reports, findings, seconds = judge(options, experiment)
            judged.append((experiment, reports, findings, seconds))
            print(f"{experiment.name} {claims.overall(findings)}"
                  f"{' (reduced: this means nothing)' if options.reduced else ''}")
            for finding in findings:
                print(f"  {finding.verdict}: {finding.figures}", flush=True)
        if options.write:
            write(options, judged)
    except (ExperimentError, OSError, KeyError) as error:
        print(f"run.py: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
