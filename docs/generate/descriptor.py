"""Reads the first file of a FileDescriptorSet as protoc writes it, with its comments.

Debian's Python has no protobuf unless one installs it; of the wire format, little is needed here.
"""

import collections

File = collections.namedtuple("File", "comments messages")
Message = collections.namedtuple("Message", "name comment fields oneofs enums")
Field = collections.namedtuple("Field", "name comment type type_name repeated oneof")
Oneof = collections.namedtuple("Oneof", "name comment")
Enum = collections.namedtuple("Enum", "name comment values")
Value = collections.namedtuple("Value", "name comment number")

# FieldDescriptorProto.Type
TYPES = {1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 8: "bool", 9: "string"}
TYPES.update({11: "message", 12: "bytes", 13: "uint32", 14: "enum"})
REPEATED = 3


def varint(data, at):
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result, at
        shift += 7


def parse(data):
    """Returns field number -> list of values: numbers, or bytes."""
    found, at = collections.defaultdict(list), 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            size = {1: 8, 5: 4}[kind]
            value, at = data[at : at + size], at + size
        found[tag >> 3].append(value)
    return found


def packed(data):
    numbers, at = [], 0
    while at < len(data):
        number, at = varint(data, at)
        numbers.append(number)
    return tuple(numbers)


def text(message, number):
    return message[number][0].decode() if message[number] else ""


def joined(comment):
    return " ".join(comment.split())


def read_comments(file):
    """Returns path of a declaration -> its comment, and the file's own paragraphs."""
    comments, of_file = {}, []
    for location in map(parse, parse(file[9][0])[1]):
        path = packed(location[1][0]) if location[1] else ()
        own = [text(location, 3), text(location, 4)]
        comments[path] = joined(" ".join(part for part in own if part))
        if path == (12,):  # `syntax`: what stands above it is about the file
            of_file = [joined(part) for part in text(location, 3).split("\n\n")]
    return comments, of_file


def read_enum(data, path, outer, comments):
    enum = parse(data)
    values = []
    for index, value in enumerate(map(parse, enum[2])):
        number = value[2][0] if value[2] else 0
        values.append(Value(text(value, 1), comments.get(path + (2, index), ""), number))
    return Enum(f"{outer}.{text(enum, 1)}", comments.get(path, ""), values)


def read_message(data, path, comments):
    message = parse(data)
    name = text(message, 1)
    oneofs = [
        Oneof(text(parse(oneof), 1), comments.get(path + (8, index), ""))
        for index, oneof in enumerate(message[8])
    ]
    fields = []
    for index, field in enumerate(map(parse, message[2])):
        optional = bool(field[17] and field[17][0])
        oneof = oneofs[field[9][0]].name if field[9] and not optional else ""
        comment = comments.get(path + (2, index), "")
        repeated = field[4][0] == REPEATED
        kind = TYPES[field[5][0]]
        fields.append(Field(text(field, 1), comment, kind, text(field, 6), repeated, oneof))
    used = [oneof for oneof in oneofs if any(field.oneof == oneof.name for field in fields)]
    enums = [
        read_enum(enum, path + (4, index), name, comments) for index, enum in enumerate(message[4])
    ]
    return Message(name, comments.get(path, ""), fields, used, enums)


def read(data):
    file = parse(parse(data)[1][0])
    comments, of_file = read_comments(file)
    messages = [read_message(one, (4, i), comments) for i, one in enumerate(file[4])]
    return File(of_file, messages)
