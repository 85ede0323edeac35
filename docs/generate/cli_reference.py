#!/usr/bin/env python3
"""Writes docs/cli.md from what `strata COMMAND --help` says.

  cli_reference.py [--check] [STRATA]

  --check   only says whether the document is current
  STRATA    the program; default: bazel-bin/cli/strata
"""

import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import document  # noqa: E402

OUTPUT = "docs/cli.md"
COMMAND = "bazel build //cli:strata && python3 docs/generate/cli_reference.py"

TITLE = """# Command line

<!-- Generated from `strata COMMAND --help`; do not edit. To make it anew:
     {command} -->

All commands of `strata`, with their options and examples. `strata COMMAND --help` prints the same.

Results go to standard output; errors, warnings and logs go to standard error. A wrong command line
or job file ends the command with one line that says why, and exit status 2.

""".format(command=COMMAND)

KINDS = {"TEXT": "text", "INT": "integer", "UINT": "integer", "FLOAT": "number"}
GROUPS = ("Options", "Subcommands", "Positionals")
COLUMN = 30


def help_of(program, command):
    ran = subprocess.run([program, *command, "--help"], stdout=subprocess.PIPE, check=True)
    return ran.stdout.decode()


def sections(text):
    """Splits help into its head, each group of (signature, meaning), and its foot."""
    blocks = text.strip("\n").split("\n\n")
    groups, foot = {}, []
    for block in blocks[1:]:
        title, _, body = block.partition("\n")
        if title.rstrip(":") in GROUPS and not foot:
            groups[title.rstrip(":")] = entries(body)
        else:
            foot.append(block)
    return blocks[0].split("\n"), groups, "\n\n".join(foot)


def entries(body):
    """CLI11 puts meanings at column 30, on a line of their own where the signature is longer."""
    found = []
    lines = body.split("\n")
    for line, following in zip(lines, [*lines[1:], ""]):
        if line.startswith(" " * COLUMN):
            found[-1][1] = (found[-1][1] + " " + line.strip()).strip()
        elif following.startswith(" " * COLUMN):
            found.append([line.strip(), ""])
        else:
            found.append([line[:COLUMN].strip(), line[COLUMN:].strip()])
    return found


def value_text(value):
    kind = "size" if "SIZE" in value else KINDS.get(re.split(r"[:\s=]", value)[0], value)
    limits = re.search(r"in \[(\S+) - (\S+)\]", value)
    if limits:
        kind += f", {limits.group(1)} to {limits.group(2)}"
    return kind


def stated_default(meaning):
    """Takes "(default: ...)" out of a meaning; returns the default, or None, and what is left."""
    begin = meaning.find(" (default: ")
    depth, end = 0, begin
    while begin >= 0 and end < len(meaning):
        depth += {"(": 1, ")": -1}.get(meaning[end], 0)
        end += 1
        if depth == 0 and meaning[end - 1] == ")":
            text = meaning[begin:end].removeprefix(" (default: ").removesuffix(")")
            return text, meaning[:begin] + meaning[end:]
    return None, meaning


def option_row(signature, meaning):
    signature, *relations = re.split(r"\s+(?=Excludes:|Needs:)", signature)
    required = signature.endswith(" REQUIRED")
    signature = signature.replace(" REQUIRED", "")
    repeated = signature.endswith(" ...")
    name, _, value = signature.replace(" ...", "").partition(" ")
    default = re.match(r"TEXT=(.+)$", value) or re.search(r"(?<!\()=([^\s\])]+)$", value)
    default = f"`{default.group(1)}`" if default else "required" if required else ""
    without_value = ""
    if meaning.endswith(", if one is given"):  # the default is that of the value, not of the option
        default, without_value = "", f"; {default} where none is given"
    stated, meaning = stated_default(meaning)
    if stated is not None:
        default = document.escape(stated)
    for relation in relations:
        word, _, others = relation.partition(":")
        # CLI11 gives them in the order of their addresses; hidden options have no name there.
        names = ", ".join(f"`{other}`" for other in sorted(others.split()))
        if names:
            meaning += f". {'Not with' if word == 'Excludes' else 'Needs'} {names}"
    value = document.escape(value_text(value)) + without_value if value else ""
    value += ", several" if repeated and "may be repeated" not in meaning else ""
    names = ", ".join(f"`{one}`" for one in name.split(","))
    return f"| {names} | {value or '-'} | {default or '-'} | {document.escape(meaning)} |"


def foot_lines(foot):
    """Examples become a block of code, the rest stays text."""
    code, out = False, []
    for line in foot.split("\n") if foot else []:
        if line == "Examples:":
            out.append("")
        if line.startswith("  ") != code:
            out += ["```"] if code else ["", "```sh"]
            code = not code
            out += [""] if not code else []
        out.append(line[2:] if code else document.escape(line))
    return out + (["```"] if code else []) + [""]


def command_lines(program, command, level):
    head, groups, foot = sections(help_of(program, command))
    usage = [line for line in head if line.startswith("Usage: ")]
    yield from (f"{'#' * level} strata {' '.join(command)}".rstrip(), "")
    yield from (document.escape(" ".join(l for l in head if l not in usage)).rstrip(".") + ".", "")
    yield from ("```", usage[0].replace("Usage: ", ""), "```", "")
    options = [row for row in groups.get("Options", []) if row[0] != "-h,--help"]
    rows = [option_row(s, m) for s, m in groups.get("Positionals", [])]
    rows += [option_row(signature, meaning) for signature, meaning in options]
    if rows:
        yield from ("| Option | Value | Default | Meaning |", "| --- | --- | --- | --- |")
        yield from (*rows, "")
    yield from foot_lines(foot)
    for name, _ in groups.get("Subcommands", []):
        yield from command_lines(program, command + [name], level + 1)


def overview_rows(program, command):
    """A row for each command, and below it for each of its own."""
    for name, meaning in sections(help_of(program, command))[1].get("Subcommands", []):
        full = [*command, name]
        yield f"| [{' '.join(full)}](#strata-{'-'.join(full)}) | {document.escape(meaning)} |"
        yield from overview_rows(program, full)


def render(program):
    _, groups, _ = sections(help_of(program, []))
    lines = ["| Command | What it does |", "| --- | --- |", *overview_rows(program, []), ""]
    for name, _ in groups["Subcommands"]:
        lines += command_lines(program, [name], 2)
    return TITLE + re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    program = os.path.abspath(arguments[0] if arguments else "bazel-bin/cli/strata")
    return document.finish(render(program), OUTPUT, "--check" in sys.argv[1:], COMMAND)


if __name__ == "__main__":
    sys.exit(main())
