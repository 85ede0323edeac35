"""Builds the faults that mutations describe into source files, each behind a switch.

    mutate.py TABLE FOLDER SOURCE... FILE.mutations...

It writes each source with all of its mutations to FOLDER/SOURCE, and to TABLE what mutant_main.cc
looks names up in. A .mutations file holds mutations of sources that lie together, sorted by source
and name, with a blank line between them and nothing else. A mutation is "mutation:", its name;
"fault:", one sentence; "source:", the file's path; "caught by:", the invariant that it violates;
perhaps "profile:", the scenarios (tests/sim/check/profile.h) that show it, and "seeds:", how many
of them it may need; then one edit or more, each

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

import collections
import os
import re
import sys

from function_bodies import BadSource, function_bodies

LINE = r"(?!(?:<<<<|====|>>>>)$).*\n"
EDIT = rf"<<<<\n((?:{LINE})*)====\n((?:{LINE})*)>>>>\n"
FIELD = r"(fault|source|caught by|profile|seeds): (.+)\n"
MUTATION = re.compile(
    rf"mutation: (?P<name>\w+)\n(?P<fields>(?:{FIELD})*)(?P<edits>(?:{EDIT})*)", re.M
)
SWITCHES = "strata::mutants"  # the namespace of mutants.h

Mutation = collections.namedtuple("Mutation", "name fault source caught_by profile seeds edits")


class BadMutation(Exception):
    pass


def mutation_of(match):
    name = match["name"]
    fields = re.findall(FIELD, match["fields"])
    values = dict(fields)
    if len(values) != len(fields):
        raise BadMutation(f"{name}: has a line twice")
    for needed in ("fault", "source", "caught by"):
        if needed not in values:
            raise BadMutation(f"{name}: no line '{needed}: ...'")
    if not match["edits"]:
        raise BadMutation(f"{name}: has no edit")
    return Mutation(
        name,
        values["fault"],
        values["source"],
        values["caught by"],
        values.get("profile", "all"),
        values.get("seeds"),
        re.findall(EDIT, match["edits"], re.M),
    )


def parse(path, text):
    """The mutations of a file."""
    found, position = [], 0
    while position < len(text):
        match = MUTATION.match(text, position)
        end = match.end() if match else position
        if not match or text[end : end + 1] not in ("", "\n"):
            line = text.count("\n", 0, end) + 1
            begin = text[end:].split("\n")[0]
            raise BadMutation(f"{path}:{line}: belongs to no mutation: {begin}")
        found.append(mutation_of(match))
        position = end + 1
    for one, after in zip(found, found[1:]):
        if (one.source, one.name) > (after.source, after.name):
            raise BadMutation(f"{path}: {after.name} belongs before {one.name}")
    return found


def read_all(paths):
    """The mutations of all files, by name."""
    found = {}
    for path in paths:
        for mutation in parse(path, read(path)):
            if mutation.name in found:
                raise BadMutation(f"{path}: there is another mutation {mutation.name}")
            found[mutation.name] = mutation
    return found


def by_source(mutations, sources):
    """Source -> its mutations; each source must have some, and each mutation a source."""
    found = {source: [] for source in sources}
    for mutation in mutations:
        if mutation.source not in found:
            raise BadMutation(f"{mutation.name}: BUILD does not list its source {mutation.source}")
        found[mutation.source].append(mutation)
    for source in sources:
        if not found[source]:
            raise BadMutation(f"no mutation names {source}, which BUILD lists")
    return found


def edits(mutation, source):
    """(begin, end, text) of what the mutation puts in the place of source[begin:end], in order."""
    found = []
    for search, replacement in mutation.edits:
        count = source.count(search)
        if not search.strip() or count != 1:
            raise BadMutation(f"text occurs {count} times in {mutation.source}:\n{search}")
        if search == replacement:
            raise BadMutation(f"changes nothing:\n{search}")
        # An edit may name lines that stay, even those around the body.
        same = len(os.path.commonprefix([search, replacement]))
        rest, text = search[same:], replacement[same:]
        tail = len(os.path.commonprefix([rest[::-1], text[::-1]]))
        begin = source.index(search) + same
        found.append((begin, begin + len(rest) - tail, text[: len(text) - tail]))
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


def mutated_bodies(mutation, source, bodies):
    """Body -> what the mutation makes of its inside, for those that it changes."""
    changes = {}
    for change in edits(mutation, source):
        around = [body for body in bodies if body[0] < change[0] and change[1] < body[1]]
        if not around:
            line = source.count("\n", 0, change[0]) + 1
            raise BadMutation(f"changes {mutation.source}:{line}, which lies in no function's body")
        changes.setdefault(around[0], []).append(change)
    return {body: inside(body, source, changes[body]) for body in changes}


def with_switches(source_path, source, mutations):
    """The source with all of its mutations built in, none of them on."""
    try:
        bodies = function_bodies(source)
    except BadSource as error:
        raise BadMutation(f"{source_path}: {error}") from error
    variants = {}  # body -> [(name, inside)]
    for mutation in sorted(mutations):
        try:
            changed = mutated_bodies(mutation, source, bodies)
        except BadMutation as error:
            raise BadMutation(f"{mutation.name}: {error}") from error
        for body, text in changed.items():
            variants.setdefault(body, []).append((mutation.name, text))
    output, position = f"// Made by mutate.py of {source_path}.\n", 0
    output += f"namespace {SWITCHES} {{\n"
    output += "".join(f"bool {mutation.name} = false;\n" for mutation in sorted(mutations))
    output += f"}}  // namespace {SWITCHES}\n"
    for begin, end in sorted(variants):
        output += source[position:begin] + "{\n"
        for name, text in variants[begin, end]:
            output += f"if (::{SWITCHES}::{name}) {{{text}}} else "
        output += source[begin:end] + "\n}"
        position = end
    return output + source[position:]


def table(names):
    """Defines what mutants.h declares."""
    rows = "".join(f'      {{"{name}", &{name}}},\n' for name in sorted(names))
    switches = "".join(f"extern bool {name};\n" for name in sorted(names))
    return (
        '#include "tests/sim/mutations/mutants.h"\n\n'
        f"namespace {SWITCHES} {{\n\n{switches}\n"
        "std::span<const Mutant> All() {\n"
        f"  static const Mutant kAll[] = {{\n{rows}  }};\n"
        f"  return kAll;\n}}\n\n}}  // namespace {SWITCHES}\n"
    )


def read(path):
    with open(path) as file:
        return file.read()


def main(table_path, folder, *inputs):
    files = [path for path in inputs if path.endswith(".mutations")]
    sources = [path for path in inputs if path not in files]
    try:
        mutations = read_all(files)
        outputs = {table_path: table(mutations)}
        for source, of_source in by_source(mutations.values(), sources).items():
            made = with_switches(source, read(source), of_source)
            outputs[os.path.join(folder, source)] = made
    except BadMutation as error:
        sys.exit(str(error))
    for path, text in outputs.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
