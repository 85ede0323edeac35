#!/usr/bin/env python3
"""Makes the pages that follow from the source: the references of jobs, commands and Python.

  all.py [OUT] [--strata PROGRAM] [--if-built] [--only PAGE]

  OUT                where they go; default: docs/, where git ignores them and links find them
  --strata PROGRAM   the program whose help becomes cli.md; default: bazel-bin/cli/strata
  --if-built         leaves cli.md out if that program is not there
  --only PAGE        makes one of them, e.g. cli.md
"""

import argparse
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import cli_reference  # noqa: E402
import job_reference  # noqa: E402
import python_reference  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.path.join(ROOT, "bazel-bin/cli/strata")
PAGES = ("cli.md", "job-reference.md", "python-api.md")


def text_of(page, program):
    if page == "cli.md":
        return cli_reference.render(program)
    return job_reference.page(ROOT) if page == "job-reference.md" else python_reference.page(ROOT)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", nargs="?", default=os.path.join(ROOT, "docs"))
    parser.add_argument("--strata", default=PROGRAM)
    parser.add_argument("--if-built", action="store_true")
    parser.add_argument("--only", choices=PAGES)
    args = parser.parse_args()
    pages = [args.only] if args.only else list(PAGES)
    if "cli.md" in pages and not os.path.isfile(args.strata):
        if not args.if_built:
            parser.exit(1, f"{args.strata}: is not there; build it: deploy/build.sh //cli:strata\n")
        pages.remove("cli.md")
    os.makedirs(args.out, exist_ok=True)
    for page in pages:
        path = os.path.join(args.out, page)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text_of(page, os.path.abspath(args.strata)))
        print(path)


if __name__ == "__main__":
    main()
