"""Shared by the generators."""

import sys


def escape(text):
    """Makes text safe inside a cell of a Markdown table, outside of code."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def finish(text, path, check, command):
    """Writes `text` to `path`, or compares it with what is there; returns the exit status."""
    if not check:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    with open(path, encoding="utf-8") as file:
        if file.read() == text:
            return 0
    print(f"{path} is stale; run: {command}", file=sys.stderr)
    return 1
