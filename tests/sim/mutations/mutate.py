"""Builds the faults that mutations describe into a source file, each behind a switch.

    mutate.py source OUTPUT SOURCE MUTATION...   the file with all of its mutations
    mutate.py table OUTPUT NAME...               what mutant_main.cc looks names up in

A mutation is a text file: "fault:", one sentence; "source:", the file's path; "caught by:", the
invariant that it violates; perhaps "profile:", the scenarios (tests/sim/check/profile.h) that
show it, and "seeds:", how many of them it may need; then one edit or more, each

    <<<<
    lines that occur in the source exactly once
    ====
    lines that take their place
    >>>>

A function that mutations change gets one body for each of them beside the sound one; a variable
with the mutation's name, which the file defines, chooses. What lies outside of bodies is there once
for all, so that an edit of it is refused. So is one whose text does not occur exactly once: no
mutation can outlive the code that it means.
"""

import os
import re
import sys

from function_bodies import BadSource, function_bodies

EDIT = re.compile(r"^<<<<\n(.*?)^====\n(.*?)^>>>>\n", re.M | re.S)
SWITCHES = "strata::mutants"  # the namespace of mutants.h


class BadMutation(Exception):
    pass


def field(text, name, otherwise=None):
    found = re.search(rf"^{name}: (.+)$", text, re.M)
    if not found and otherwise is not None:
        return otherwise
    if not found:
        raise BadMutation(f"no line '{name}: ...'")
    return found.group(1)


def edits(mutation, source_path, source):
    """(begin, end, text) of what the mutation puts in the place of source[begin:end], in order."""
    named = field(mutation, "source")
    field(mutation, "fault")
    field(mutation, "caught by")
    if named != source_path:
        raise BadMutation(f"is about {named}, not {source_path}")
    found = []
    for search, replacement in EDIT.findall(mutation):
        count = source.count(search)
        if not search.strip() or count != 1:
            raise BadMutation(f"text occurs {count} times in {source_path}:\n{search}")
        if search == replacement:
            raise BadMutation(f"changes nothing:\n{search}")
        # An edit may name lines that stay, even those around the body.
        same = len(os.path.commonprefix([search, replacement]))
        rest, text = search[same:], replacement[same:]
        tail = len(os.path.commonprefix([rest[::-1], text[::-1]]))
        begin = source.index(search) + same
        found.append((begin, begin + len(rest) - tail, text[: len(text) - tail]))
    if not found:
        raise BadMutation("has no edit")
    found.sort()
    for before, after in zip(found, found[1:]):
        if before[1] > after[0]:
            raise BadMutation("has edits of the same text")
    return found


def inside(body, source, changes):
    """What stands between the braces of a body once the changes are made."""
    text, position = "", body[0] + 1
    for begin, end, replacement in changes:
        text += source[position:begin] + replacement
        position = end
    text += source[position : body[1] - 1]
    head = "void Body() "
    try:
        found = function_bodies(head + "{" + text + "}")
    except BadSource as error:
        raise BadMutation(f"leaves a body of which {error}") from error
    if found != [(len(head), len(head) + len(text) + 2)]:
        raise BadMutation("ends a body early")
    return text


def mutated_bodies(mutation, source_path, source, bodies):
    """Body -> what the mutation makes of its inside, for those that it changes."""
    changes = {}
    for change in edits(mutation, source_path, source):
        around = [body for body in bodies if body[0] < change[0] and change[1] < body[1]]
        if not around:
            line = source.count("\n", 0, change[0]) + 1
            raise BadMutation(f"changes {source_path}:{line}, which lies in no function's body")
        changes.setdefault(around[0], []).append(change)
    return {body: inside(body, source, changes[body]) for body in changes}


def with_switches(source_path, source, mutations):
    """The source with all mutations (name -> text) built in, none of them on."""
    try:
        bodies = function_bodies(source)
    except BadSource as error:
        raise BadMutation(f"{source_path}: {error}") from error
    variants = {}  # body -> [(name, inside)]
    for name, mutation in sorted(mutations.items()):
        try:
            changed = mutated_bodies(mutation, source_path, source, bodies)
        except BadMutation as error:
            raise BadMutation(f"{name}: {error}") from error
        for body, text in changed.items():
            variants.setdefault(body, []).append((name, text))
    output, position = f"// Made by mutate.py of {source_path}.\n", 0
    output += f"namespace {SWITCHES} {{\n"
    output += "".join(f"bool {name} = false;\n" for name in sorted(mutations))
    output += f"}}  // namespace {SWITCHES}\n"
    for begin, end in sorted(variants):
        output += source[position:begin] + "{\n"
        for name, text in variants[begin, end]:
            output += f"if (::{SWITCHES}::{name}) {{{text}}} else "
        output += source[begin:end] + "\n}"
        position = end
    return output + source[position:]


def table(names):
    """Defines what mutants.h declares. A name that no source defines is an error of the linker."""
    rows = "".join(f'      {{"{name}", &{name}}},\n' for name in sorted(names))
    switches = "".join(f"extern bool {name};\n" for name in sorted(names))
    return (
        '#include "tests/sim/mutations/mutants.h"\n\n'
        f"namespace {SWITCHES} {{\n\n{switches}\n"
        "std::span<const Mutant> All() {\n"
        f"  static const Mutant kAll[] = {{\n{rows}  }};\n"
        f"  return kAll;\n}}\n\n}}  // namespace {SWITCHES}\n"
    )


def name_of(path):
    return os.path.basename(path).rsplit(".", 1)[0]


def read(path):
    with open(path) as file:
        return file.read()


def main(what, output_path, *inputs):
    try:
        if what == "table":
            output = table(inputs)
        else:
            source_path, *paths = inputs
            mutations = {name_of(path): read(path) for path in paths}
            output = with_switches(source_path, read(source_path), mutations)
    except BadMutation as error:
        sys.exit(str(error))
    with open(output_path, "w") as file:
        file.write(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
