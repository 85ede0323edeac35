#!/usr/bin/env python3
"""Lays the documents out for mkdocs, with what they show and link to, and writes its settings.

  stage.py FOLDER    makes FOLDER/source and FOLDER/mkdocs.yml
"""

import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import links  # noqa: E402  (beside this file)

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "../.."))

# Section -> documents in the order of reading; those that are not there are left out.
NAVIGATION = {
    "Start": ["README.md"],
    "Use": ["python", "training", "modes", "exchanges", "compression", "compare", "install",
            "deployment", "gpu"],
    "Look up": ["python-api", "job-reference", "cli", "reports", "troubleshooting",
                "RESULTS"],
    "Understand": ["ARCHITECTURE.md", "semantics", "control-plane", "wire", "limits", "devices"],
    "Contribute": ["CONTRIBUTING.md", "CHANGELOG.md"],
}


def navigation(paths):
    """Returns lines of YAML; documents in docs/ that no section names come last."""
    lines, named = ["nav:"], {"docs/README.md"}
    sections = {title: list(names) for title, names in NAVIGATION.items()}
    full = {title: [n if n.endswith(".md") else f"docs/{n}.md" for n in names]
            for title, names in sections.items()}
    for names in full.values():
        named.update(names)
    folder = [path for path in paths if os.path.dirname(path) == "docs" and path.endswith(".md")]
    full["More"] = [path for path in folder if path not in named]
    for title, names in full.items():
        there = [name for name in names if name in paths]
        if there:
            lines += [f"  - {title}:"] + [f"      - {name}" for name in there]
    return lines


def staged(paths):
    """Returns documents and what they link to, files only."""
    wanted = {path for path in paths if path.endswith(".md")} | {"docs/generate/site.css"}
    for path in sorted(wanted):
        if not path.endswith(".md"):
            continue
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            targets = [links.resolve(path, target) for _, target in links.links(file.read())]
        wanted |= {target[0] for target in targets if target and target[0] in paths}
    return wanted


def main():
    folder = sys.argv[1]
    source = os.path.join(folder, "source")
    shutil.rmtree(source, ignore_errors=True)
    paths = set(links.tracked_files(ROOT))
    for path in staged(paths):
        os.makedirs(os.path.dirname(os.path.join(source, path)), exist_ok=True)
        shutil.copyfile(os.path.join(ROOT, path), os.path.join(source, path))
    command = [sys.executable, os.path.join(ROOT, "docs/generate/all.py"), f"{source}/docs"]
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    paths |= {os.path.relpath(path, source) for path in made.splitlines()}
    with open(os.path.join(HERE, "mkdocs.yml"), encoding="utf-8") as file:
        settings = file.read()
    with open(os.path.join(folder, "mkdocs.yml"), "w", encoding="utf-8") as file:
        file.write(settings + "docs_dir: source\n" + "\n".join(navigation(paths)) + "\n")


if __name__ == "__main__":
    main()
