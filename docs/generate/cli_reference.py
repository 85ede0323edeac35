"""Renders docs/cli.md from what `strata COMMAND --help-all` says; all.py writes it."""

import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import document  # noqa: E402

TITLE = """# Command line

<!-- Generated from `strata COMMAND --help-all` by docs/generate/all.py. -->

All commands of `strata`, with their options and examples. `strata COMMAND --help-all` prints the
same, `strata COMMAND --help` most of it.

Results go to standard output; errors, warnings and logs go to standard error. A wrong command line
or job file ends the command with one line that says why, and exit status 2.

"""

KINDS = {"TEXT": "text", "INT": "integer", "UINT": "integer", "FLOAT": "number"}
GROUPS = ("Options", "More options", "Positionals")
COLUMN = 30


def help_of(program, command, option):
    ran = subprocess.run([program, *command, option], stdout=subprocess.PIPE, check=True)
    return ran.stdout.decode()


def subcommands(program, command):
    """Returns the commands below one, each with its meaning, as --help lists them."""
    found = []
    _, _, body = help_of(program, command, "--help").partition("\nCommands:\n")
    for line in body.split("\n\n")[0].strip("\n").split("\n") if body else []:
        if line.startswith("   "):
            found[-1][1] += " " + line.strip()
        else:
            found.append(line.strip().split(None, 1))
    return found


def sections(text):
    """Splits help into its head, each group of (signature, meaning), and its foot."""
    blocks = re.split(r"\n{2,}", text.strip("\n"))
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
    optional = re.match(r"(\S+)\{(.+)\}$", name)  # a flag that may have a value
    if optional:
        name, value = optional.group(1), f"TEXT={optional.group(2)}"
        meaning += ", if one is given"
    default = re.match(r"TEXT=(.+)$", value) or re.search(r"(?<!\()=([^\s\])]+)$", value)
    default = f"`{default.group(1)}`" if default else "required" if required else ""
    without_value = ""
    if meaning.endswith(", if one is given"):  # the default is that of the value, not of the option
        default, without_value = "", f"; {default} where none is given"
        meaning = meaning.removesuffix(", if one is given") if optional else meaning
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
    below = subcommands(program, command)
    # With --help-all a command has the help of those below it in the place of its own list.
    head, groups, foot = sections(help_of(program, command, "--help" if below else "--help-all"))
    if below:
        groups, foot = {}, foot.split("\n\n", 1)[1] if foot.startswith("Commands:") else foot
    usage = [line for line in head if line.startswith("Usage: ")]
    yield from (f"{'#' * level} strata {' '.join(command)}".rstrip(), "")
    yield from (document.escape(" ".join(l for l in head if l not in usage)).rstrip(".") + ".", "")
    yield from ("```", usage[0].replace("Usage: ", ""), "```", "")
    options = groups.get("Options", []) + groups.get("More options", [])
    options = [row for row in options if row[0] not in ("-h,--help", "--help-all")]
    rows = [option_row(s, m) for s, m in groups.get("Positionals", [])]
    rows += [option_row(signature, meaning) for signature, meaning in options]
    if rows:
        yield from ("| Option | Value | Default | Meaning |", "| --- | --- | --- | --- |")
        yield from (*rows, "")
    yield from foot_lines(foot)
    for name, _ in below:
        yield from command_lines(program, command + [name], level + 1)


def overview_rows(program, command):
    """A row for each command, and below it for each of its own."""
    for name, meaning in subcommands(program, command):
        full = [*command, name]
        yield f"| [{' '.join(full)}](#strata-{'-'.join(full)}) | {document.escape(meaning)} |"
        yield from overview_rows(program, full)


def render(program):
    lines = ["| Command | What it does |", "| --- | --- |", *overview_rows(program, []), ""]
    for name, _ in subcommands(program, []):
        lines += command_lines(program, [name], 2)
    return TITLE + re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"
