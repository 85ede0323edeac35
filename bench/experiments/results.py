"""docs/RESULTS.md: what the experiments gave, between marks; the text around them is by hand."""

import os
import shutil

import claims
from campaign import ExperimentError

PICTURES = "results"  # beside RESULTS.md


def put_between(text, name, new):
    """TEXT with NEW between the marks of that name. Errors: ExperimentError where they lack."""
    begin, end = (f"<!-- {mark} {name} -->\n" for mark in ("begin", "end"))
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        raise ExperimentError(f"no marks {begin.strip()} and {end.strip()}, once each, in order")
    before, rest = text.split(begin)
    return before + begin + new + end + rest.split(end)[1]


def _table(rows):
    lines = ["| " + " | ".join(rows[0]) + " |", "| " + " | ".join(["---"] * len(rows[0])) + " |"]
    lines += ["| " + " | ".join(row) + " |" for row in rows[1:]]
    return "\n".join(lines) + "\n"


def _columns(rows, wanted):
    kept = [i for i, name in enumerate(rows[0]) if wanted(name)]
    return [[row[i] for i in kept] for row in rows]


def _shown(campaign, rows):
    if campaign.tries:
        return _columns(rows, lambda name: name in ("mode", "accuracy", "runs"))
    if campaign.timed:
        return rows
    return _columns(rows, lambda name: not name.startswith(("time to", "speed-up", "waiting")))


def pictures_of(experiment, campaign):
    """Their paths in the document's folder."""
    return [f"{PICTURES}/{experiment.name}_{campaign.name}_{picture}.svg"
            for picture in campaign.pictures]


def _campaign_section(experiment, campaign, report):
    name = f"{experiment.name} {campaign.name}"
    text = f"**{name}**: {report['modes'][0]['cluster']}\n\n"
    text += f"    {campaign.command(experiment.name)}\n\n"
    rows = _shown(campaign, report["table"])
    own = [[claims.short(report, row[0]), *row[1:]] for row in rows[1:]]
    text += _table([rows[0], *own]) + "\n"
    text += "".join(f"{rule}\n\n" for rule in report["rules"] if rule.startswith("Tuned"))
    for picture, path in zip(campaign.pictures, pictures_of(experiment, campaign), strict=True):
        text += f"![{name}: {picture.replace('_', ' ')}]({path})\n"
    return text.rstrip("\n") + "\n"


def section(experiment, findings, reports, cpu_s):
    """Markdown of one experiment; reports by campaign's name."""
    text = f"**Verdict: {claims.overall(findings)}.**\n\n"
    text += "".join(f"- {finding.verdict}: {finding.figures}\n" for finding in findings)
    for campaign in experiment.campaigns:
        text += "\n" + _campaign_section(experiment, campaign, reports[campaign.name])
    text += f"\nProcessor time: {cpu_s / 60:.1f} minutes"
    if experiment.earlier_min:
        text += f", and {experiment.earlier_min:.1f} for what the remark tells of besides"
    return text + ".\n"


def summary(rows):
    """rows: (experiment, its findings, processor seconds)."""
    verdicts = (claims.HOLDS, claims.OPEN, claims.FAILS)
    table = [["#", "claim, in short", "verdict", *(f"parts: {verdict}" for verdict in verdicts),
              "processor time, min"]]
    total_min = earlier_min = 0
    for experiment, findings, cpu_s in rows:
        own = [finding.verdict for finding in findings]
        minutes = cpu_s / 60 + experiment.earlier_min
        table.append([experiment.name, experiment.claim, claims.overall(findings),
                      *(str(own.count(verdict)) for verdict in verdicts), f"{minutes:.1f}"])
        total_min += minutes
        earlier_min += experiment.earlier_min
    return _table(table) + (
        f"\nAll together: {total_min / 60:.2f} hours of processor time, {earlier_min / 60:.2f} of "
        "them for earlier series and tries by hand,\nof which the remarks tell.\n")


def copy_pictures(experiment, folder, docs):
    """Writes the results of its campaigns in FOLDER to DOCS/results."""
    os.makedirs(os.path.join(docs, PICTURES), exist_ok=True)
    for campaign in experiment.campaigns:
        for picture, path in zip(campaign.pictures, pictures_of(experiment, campaign), strict=True):
            shutil.copyfile(os.path.join(folder, campaign.name, "report", picture + ".svg"),
                            os.path.join(docs, path))
