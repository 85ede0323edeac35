"""Renders docs/job-reference.md from what protoc says of proto/job.proto; all.py writes it."""

import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import descriptor  # noqa: E402
import document  # noqa: E402

PROTO = "proto/job.proto"

TITLE = f"""# Job reference

<!-- Generated from {PROTO} by docs/generate/all.py. -->

"""

# A sentence ends where the next one begins with a capital letter, digit, quote or parenthesis.
SENTENCE_END = re.compile(r"(?<=[.!?])(?<! al\.)\s+(?=[A-Z\"(`0-9])")
DEFAULT = re.compile(r"^default:? (.+)$", re.I)


def capital(text):
    return text if re.match(r"\w+_", text) else text[:1].upper() + text[1:]


def split_default(comment):
    """Splits a comment into the default that it states, if any, and the rest."""
    default, rest = "", []
    for sentence in SENTENCE_END.split(comment):
        found = DEFAULT.match(sentence)
        if sentence == "Required.":
            default = "required"
        elif found and not default:
            default, _, tail = found.group(1).partition("; ")
            default = default.rstrip(".")
            if tail:
                rest.append(capital(tail.rstrip(".") + "."))
        else:
            rest.append(sentence)
    return default, " ".join(rest)


def cell(text):
    return document.escape(text) or "-"


def anchor(name):
    return name.lower().replace(".", "")


def type_text(field):
    name = field.type_name.replace(".strata.proto.", "")
    text = f"[{name}](#{anchor(name)})" if name else field.type
    return f"list of {text}" if field.repeated else text


def default_text(field, enums):
    """Returns the default that the comment states, or that the type implies."""
    stated, _ = split_default(field.comment)
    if stated:
        return cell(stated)
    if field.type_name in enums:
        return f"`{enums[field.type_name].values[0].name}`"
    if field.repeated:
        return "empty"
    return {"bool": "false", "string": "empty"}.get(field.type, "0" if not field.type_name else "-")


def field_table(message, enums):
    lines = ["| Field | Type | Default | Meaning |", "| --- | --- | --- | --- |"]
    for field in message.fields:
        kind = type_text(field)
        if field.oneof:
            kind += f" (one of `{field.oneof}`)"
        of_enum = enums[field.type_name].comment if field.type_name in enums else ""
        meaning = cell(split_default(field.comment)[1] or split_default(of_enum)[1])
        default = "-" if field.oneof else default_text(field, enums)
        lines.append(f"| `{field.name}` | {kind} | {default} | {meaning} |")
    return lines


def oneof_lines(message):
    for oneof in message.oneofs:
        names = [f"`{field.name}`" for field in message.fields if field.oneof == oneof.name]
        text = f"**`{oneof.name}`**, at most one of {', '.join(names[:-1])} and {names[-1]}"
        comment = document.escape(oneof.comment[:1].lower() + oneof.comment[1:])
        yield f"{text}: {comment}" if comment else f"{text}."


def enum_lines(enum):
    yield from (f"### {enum.name}", "")
    if enum.comment:
        yield from (document.escape(enum.comment), "")
    yield from ("| Value | Meaning |", "| --- | --- |")
    for value in enum.values:
        meaning = re.sub(r"(^| )[Tt]he default\.?$", "", value.comment)
        is_default = " (default)" if value.number == 0 else ""
        yield f"| `{value.name}`{is_default} | {cell(capital(meaning))} |"
    yield ""


def message_lines(message, enums):
    yield from (f"## {message.name}", "")
    if message.comment:
        yield from (document.escape(message.comment), "")
    for line in oneof_lines(message):
        yield from (line, "")
    if message.fields:
        yield from field_table(message, enums)
        yield ""
    elif not message.enums:
        yield from ("It has no fields.", "")
    for enum in message.enums:
        yield from enum_lines(enum)


def render(file):
    enums = {f".strata.proto.{enum.name}": enum for m in file.messages for enum in m.enums}
    paragraphs = [document.escape(text) + "\n" for text in file.comments]
    lines = [line for message in file.messages for line in message_lines(message, enums)]
    return TITLE + "\n".join(paragraphs + lines).rstrip("\n") + "\n"


def page(root):
    """The page of the tree at `root`."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "job.binpb")
        command = ["protoc", "-I.", "--include_source_info", f"--descriptor_set_out={path}", PROTO]
        subprocess.run(command, cwd=root, check=True)
        with open(path, "rb") as file:
            return render(descriptor.read(file.read()))
