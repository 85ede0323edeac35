#!/usr/bin/env python3
"""Checks that every relative link of every tracked Markdown file leads somewhere.

  links.py [ROOT]    ROOT: the workspace; default: the one that this file lies in

A file that is linked must exist, and so must the heading that an anchor names. Pages that
docs/generate/all.py makes count as files: they are made for this check, all but cli.md where the
program is not built, whose headings are not checked then. Links of the web are left alone.
"""

import os
import re
import subprocess
import sys
import tempfile
import urllib.parse

# [text](target) and ![text](target "title"); [name]: target.
INLINE = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\](?:\([^)]*\))?)*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
NESTED = re.compile(r"!\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)")
HTML = re.compile(r"<(?:img|a|source)\b[^>]*?\b(?:src|href|srcset)=\"([^\"]+)\"")
ID = re.compile(r"\b(?:id|name)=\"([^\"]+)\"")
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")


def prose(text):
    """Yields (line number, line) with code blanked."""
    fence = None
    for number, line in enumerate(text.split("\n"), 1):
        opened = re.match(r" {0,3}(```+|~~~+)", line)
        if fence:
            if opened and opened.group(1).startswith(fence):
                fence = None
            continue
        if opened:
            fence = opened.group(1)
            continue
        if not re.match(r"    \S", line):
            yield number, line


def links(text):
    """Yields (line number, target) of each link, also of those that point to the web."""
    for number, line in prose(text):
        line = re.sub(r"(`+)(?:(?!\1).)+?\1", "", line)
        for pattern in (INLINE, NESTED, REFERENCE, HTML):
            for found in pattern.finditer(line):
                yield number, found.group(1)


def slug(heading):
    """The anchor that GitHub makes of a heading."""
    heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    heading = re.sub(r"<[^>]+>", "", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def slug_of_site(heading, _separator):
    """The same anchor on the site, whose generator calls this."""
    return slug(heading)


def anchors(text):
    found, seen = set(), {}
    for _, line in prose(text):
        found.update(ID.findall(line))
        heading = HEADING.match(line)
        if heading:
            name = slug(heading.group(1))
            count = seen.get(name, 0)
            seen[name] = count + 1
            found.add(f"{name}-{count}" if count else name)
    return found


def resolve(path, target):
    """Returns (path from the root, anchor) of a relative link, or None for one of the web."""
    parts = urllib.parse.urlsplit(target)
    if parts.scheme or parts.netloc:
        return None
    folder = "" if parts.path.startswith("/") else os.path.dirname(path)
    linked = urllib.parse.unquote(parts.path).lstrip("/")
    full = os.path.normpath(os.path.join(folder, linked)) if parts.path else path
    return full, urllib.parse.unquote(parts.fragment)


def generated(root):
    """Returns path -> text of each page that docs/generate makes; None where it was not made."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.join(root, "docs/generate"))
    import all as generator  # pylint: disable=import-outside-toplevel

    texts = {}
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([sys.executable, generator.__file__, out, "--if-built"], check=True,
                       stdout=subprocess.DEVNULL)
        for page in generator.PAGES:
            path = os.path.join(out, page)
            texts[f"docs/{page}"] = None
            if os.path.isfile(path):
                with open(path, encoding="utf-8") as file:
                    texts[f"docs/{page}"] = file.read()
    return texts


def check(root, paths, made=None):
    """Yields what is wrong in Markdown files as "PATH:LINE: text".

    Those are the ones among tracked paths, and those made: path -> text, or None if unknown."""
    made = made or {}
    tracked = set(paths) | set(made)
    folders = {os.path.dirname(path) for path in paths}
    folders |= {folder[:i] for folder in folders for i, c in enumerate(folder) if c == "/"} | {"."}
    texts = {path: text for path, text in made.items() if text is not None}
    for path in paths:
        if path.endswith(".md") and path not in made:
            with open(os.path.join(root, path), encoding="utf-8") as file:
                texts[path] = file.read()
    for path, text in sorted(texts.items()):
        for line, target in links(text):
            where = resolve(path, target)
            if where is None:
                continue
            linked, anchor = where
            if linked not in tracked and linked not in folders:
                yield f"{path}:{line}: {target}: no such file"
            elif anchor and linked in texts and anchor not in anchors(texts[linked]):
                yield f"{path}:{line}: {target}: no such heading in {linked}"


def tracked_files(root):
    command = ["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z", "--cached"]
    command += ["--others", "--exclude-standard"]
    listed = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()
    return [p for p in sorted(set(listed.split("\0"))) if p and os.path.isfile(f"{root}/{p}")]


def main():
    here = os.path.dirname(os.path.realpath(__file__))
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "../.."))
    paths = tracked_files(root)
    found = list(check(root, paths, generated(root)))
    for finding in found:
        print(finding)
    count = sum(1 for path in paths if path.endswith(".md"))
    print(f"{count} Markdown files in {root}: {len(found)} broken links")
    # A tree without documents is not this project: the check would say nothing.
    return 1 if found or count < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
