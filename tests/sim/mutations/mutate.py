"""Makes the faulty version of a source file that a mutation describes.

    mutate.py MUTATION SOURCE OUTPUT

A mutation is a text file: "fault:", one sentence; "source:", the file's path; "caught by:", the
invariant that it violates; perhaps "profile:", the scenarios (tests/sim/scenario/profile.h) that
show it, and "seeds:", how many of them it may need; then one edit or more, each

    <<<<
    lines that occur in the source exactly once
    ====
    lines that take their place
    >>>>

Fails where the text does not occur exactly once, so that no mutation can outlive the code that it
means. The output also defines the name of the mutation, which shows that a program holds it.
"""

import os
import re
import sys

EDIT = re.compile(r"^<<<<\n(.*?)^====\n(.*?)^>>>>\n", re.M | re.S)


class BadMutation(Exception):
    pass


def field(text, name, otherwise=None):
    found = re.search(rf"^{name}: (.+)$", text, re.M)
    if not found and otherwise is not None:
        return otherwise
    if not found:
        raise BadMutation(f"no line '{name}: ...'")
    return found.group(1)


def mutate(mutation, source_path, source):
    """The source with all edits made. Raises BadMutation."""
    named = field(mutation, "source")
    field(mutation, "fault")
    field(mutation, "caught by")
    if named != source_path:
        raise BadMutation(f"is about {named}, not {source_path}")
    edits = EDIT.findall(mutation)
    if not edits:
        raise BadMutation("has no edit")
    for search, replacement in edits:
        count = source.count(search)
        if not search.strip() or count != 1:
            raise BadMutation(f"text occurs {count} times in {source_path}:\n{search}")
        source = source.replace(search, replacement)
    return source


def marker(name):
    """What the program that runs the mutant prints."""
    return f'\nextern "C" const char* StrataMutation() {{ return "{name}"; }}\n'


def main(mutation_path, source_path, output_path):
    name = os.path.basename(mutation_path).rsplit(".", 1)[0]
    with open(mutation_path) as mutation, open(source_path) as source:
        try:
            mutated = mutate(mutation.read(), source_path, source.read())
        except BadMutation as error:
            sys.exit(f"{mutation_path}: {error}")
    with open(output_path, "w") as output:
        output.write(mutated + marker(name))


if __name__ == "__main__":
    main(*sys.argv[1:])
