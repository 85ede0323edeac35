"""Which folder may use which: rules over #include lines and the table of ARCHITECTURE.md.

The table has a row per room:

    | folder | holds | rooms inside, each may use those before it | may use |

Files of a room may include what lies in the rooms of its last column, and, inside of it, what lies
in their own folder or in one that stands before it in the third column ("." is the room's own
folder). Tests, benchmarks and `testing/` folders may use what any room of their top-level folder
may use.
"""

import re

FILES_MAX = 70
SOURCE = (".cc", ".h", ".cu", ".cuh")
TABLE_FILE = "ARCHITECTURE.md"
ROW = re.compile(r"^\| `([\w/]+)/` \|([^|]*)\|([^|]*)\|([^|]*)\|$", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


class Room:
    def __init__(self, folder, inside, may_use):
        self.folder = folder
        self.inside = inside
        self.may_use = may_use


def words(cell):
    return re.findall(r"`([\w./]+?)/?`", cell)


def rooms(text):
    """Folder -> Room, as the table says."""
    table = {}
    for folder, _, inside, may_use in ROW.findall(text):
        uses = ["all"] if may_use.strip() == "all" else words(may_use)
        table[folder] = Room(folder, words(inside) or ["."], uses)
    return table


def is_below(folder, above):
    return (folder + "/").startswith(above + "/")


def folder_of(path):
    return path.rpartition("/")[0]


def room_of(folder, table):
    """The room with the longest name that holds a folder, or None."""
    found = [name for name in table if is_below(folder, name)]
    return table[max(found, key=len)] if found else None


def place_in(room, folder):
    """Where a folder stands among the rooms inside of its room; None if it is not listed."""
    rest = folder[len(room.folder) + 1 :]
    found = [name for name in room.inside if name != "." and is_below(rest, name)]
    if found:
        return room.inside.index(max(found, key=len))
    return room.inside.index(".") if "." in room.inside and not rest else None


def is_test(path):
    return bool(re.search(r"_(test|benchmark)\.cc$", path)) or "/testing/" in path


def included(tree):
    """Yields (path, line, path of the included file) of what lies in this tree."""
    known = set(tree.paths)
    for path in tree.paths:
        if not path.endswith(SOURCE):
            continue
        text = tree.text(path)
        for match in INCLUDE.finditer(text):
            target = re.sub(r"(\.grpc)?\.pb\.h$", ".proto", match.group(1))
            if target in known and folder_of(target) != folder_of(path):
                yield path, text.count("\n", 0, match.start(1)) + 1, target


def uses_allowed(room, path, table):
    """What a file of a room may use besides the room."""
    if not is_test(path):
        return room.may_use
    top = room.folder.split("/")[0]
    alike = [other for name, other in table.items() if name.split("/")[0] == top]
    return [top] + [use for other in alike for use in other.may_use]


def finding(path, target, table):
    """Why a file may not include another; None where it may."""
    folder, used = folder_of(path), folder_of(target)
    room, used_room = room_of(folder, table), room_of(used, table)
    if room is None:
        return f"{folder}/ is in no row of the table of {TABLE_FILE}"
    if used_room is None:
        return f"{used}/ is in no row of the table of {TABLE_FILE}"
    allowed = uses_allowed(room, path, table)
    if room is not used_room or is_test(path):
        fits = room is used_room or any(use == "all" or is_below(used, use) for use in allowed)
        return None if fits else f"{room.folder}/ may not use {used}/ ({target})"
    place, used_place = place_in(room, folder), place_in(room, used)
    for name, known in ((folder, place), (used, used_place)):
        if known is None:
            return f"{name}/ is no room of {room.folder}/ in the table of {TABLE_FILE}"
    return None if used_place <= place else f"{folder}/ may not use {used}/ ({target})"


def folder_table(tree):
    table = rooms(tree.text(TABLE_FILE)) if TABLE_FILE in tree.paths else {}
    for path, line, target in included(tree):
        text = finding(path, target, table)
        if text:
            yield f"{path}:{line}: {text}"


def cycles(edges):
    """The groups of folders that reach each other, each sorted."""

    def reached(start):
        seen, todo = set(), [start]
        while todo:
            for other in edges.get(todo.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        return seen

    reach = {folder: reached(folder) for folder in edges}
    found = []
    for folder in sorted(edges):
        group = [other for other in reach[folder] if folder in reach.get(other, ())]
        if folder in reach[folder] and sorted(group) not in found:
            found.append(sorted(group))
    return found


def folder_cycles(tree):
    edges, example = {}, {}
    for path, line, target in included(tree):
        if is_test(path):
            continue
        edge = (folder_of(path), folder_of(target))
        edges.setdefault(edge[0], set()).add(edge[1])
        example.setdefault(edge, f"{path}:{line}")
    for group in cycles(edges):
        lines = [at for (a, b), at in sorted(example.items()) if a in group and b in group]
        yield f"{lines[0]}: a cycle of folders: {', '.join(group)} (also {', '.join(lines[1:])})"


def folder_size(tree):
    counts = {}
    for path in tree.paths:
        counts[folder_of(path)] = counts.get(folder_of(path), 0) + 1
    for folder, count in sorted(counts.items()):
        if count > FILES_MAX:
            yield f"{folder}:1: folder of {count} files, more than {FILES_MAX}"


ALL = (folder_table, folder_cycles, folder_size)
