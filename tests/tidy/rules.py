"""The rules of the tidy test: each takes a Tree and yields what it finds, as "PATH:LINE: text"."""

import re

LINE_LENGTH_MAX = 100
FUNCTION_LINES_MAX = 60
# A class has one .cc, so that nobody cuts it to stay below a limit.
FILE_LINES_MAX = 1000
HEADER_LINES_MAX = 300

SOURCE = (".cc", ".h", ".cu", ".cuh")
SCRIPTS = (".py", ".sh")
# Files with a limit on the line length; Markdown tables and generated text are exempt.
TEXT = SOURCE + (".proto", ".py", ".sh", ".bzl", "BUILD", "WORKSPACE")

BANNED = {
    "getenv": re.compile(r"\b(secure_)?getenv\s*\("),
    "sleep_for": re.compile(r"\bsleep_(for|until)\b"),
    "std::mutex": re.compile(r"\bstd::(recursive_|shared_|timed_)?mutex\b"),
    "raw new": re.compile(r"\bnew\b\s*[\w:(]"),
    "raw delete": re.compile(r"(?<!=)\s*(?<!= )\bdelete\b\s*(\[\s*\])?\s*[\w(*]"),
}

# Library -> where a header file may include it (ZeroMQ: any file).
WALLED_INCLUDES = {
    "zmq": ("common/transport/zmq/", "bench/peers/"),
    "grpc": ("common/control/", "server/coordinator/"),
    "dnnl": ("training/nn/onednn/",),
    "oneapi": ("training/nn/onednn/",),
    "curl": ("common/s3/",),
    "cuda": ("kernels/cuda/", "kernels/fake_cuda/"),
    "spdlog": (),
    "sqlite3": (),
}


def strip_comments_and_strings(text):
    """Blanks comments and literals, so that line numbers and columns stay."""

    def blank(match):
        token = match.group(0)
        keep = token[0] if token[0] in "\"'" else " "
        body = re.sub(r"[^\n]", " ", token)
        return keep + body[1:-1] + keep if keep != " " and len(token) > 1 else body

    pattern = r'R"([^(\s]*)\((?:.|\n)*?\)\1"|//[^\n]*|/\*(?:.|\n)*?\*/|"(?:\\.|[^"\\\n])*"'
    return re.sub(pattern + r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", blank, text)


def is_source(path):
    return path.endswith(SOURCE)


def line_length(tree):
    for path in tree.paths:
        if not path.endswith(TEXT):
            continue
        for number, line in enumerate(tree.text(path).split("\n"), 1):
            if len(line) > LINE_LENGTH_MAX:
                yield f"{path}:{number}: line of {len(line)} characters, more than 100"


def file_length(tree):
    for path in tree.paths:
        if not path.endswith(SOURCE + SCRIPTS):
            continue
        limit = HEADER_LINES_MAX if path.endswith(".h") else FILE_LINES_MAX
        count = tree.text(path).count("\n")
        if count > limit:
            yield f"{path}:{count}: file of {count} lines, more than {limit}"


# A body opens a function unless what stands before it is one of these.
NOT_A_FUNCTION = re.compile(r"\b(namespace|class|struct|enum|union|extern)\b[^;{}()]*$|=\s*$")


def functions(text):
    """Yields (first line, last line) of each outermost braces that are a function's body."""
    code = strip_comments_and_strings(text)
    code = re.sub(r"^[ \t]*#.*$", lambda m: " " * len(m.group(0)), code, flags=re.M)
    line, head, stack = 1, "", []
    head_line = None
    for char in code:
        if char == "{":
            in_function = any(kind for kind, _ in stack)
            is_function = not in_function and ")" in head and not NOT_A_FUNCTION.search(head)
            stack.append((is_function, head_line or line))
            head, head_line = "", None
        elif char == "}":
            if stack:
                is_function, first = stack.pop()
                if is_function:
                    yield first, line
            head, head_line = "", None
        elif char == ";":
            head, head_line = "", None
        elif char == ":" and head in ("public", "private", "protected"):
            head, head_line = "", None
        elif not (char.isspace() and not head):
            if head_line is None:
                head_line = line
            head += char
        if char == "\n":
            line += 1


def function_length(tree):
    for path in filter(is_source, tree.paths):
        for first, last in functions(tree.text(path)):
            count = last - first + 1
            allowed = tree.ratchet.get(f"{path}:{first_name(tree.text(path), first)}", 0)
            if count > max(FUNCTION_LINES_MAX, allowed):
                yield f"{path}:{first}: function of {count} lines, more than {FUNCTION_LINES_MAX}"


def first_name(text, line):
    """The name of the function that begins on a line, as the ratchet file writes it."""
    found = re.search(r"([\w:~]+)\s*\(", "\n".join(text.split("\n")[line - 1 : line + 3]))
    return found.group(1) if found else ""


# Owned at once, so not raw: what private constructors need.
OWNED_NEW = re.compile(r"(WrapUnique|unique_ptr<[^;()]*>\s*\w*)\s*\(\s*new\b")


def banned_calls(tree):
    for path in filter(is_source, tree.paths):
        code = strip_comments_and_strings(tree.text(path))
        code = OWNED_NEW.sub(lambda match: match.group(0)[:-3] + "   ", code)
        for number, line in enumerate(code.split("\n"), 1):
            if line.lstrip().startswith("#"):
                continue
            for name, pattern in BANNED.items():
                if pattern.search(line) and path not in tree.allowed.get(name, ()):
                    yield f"{path}:{number}: {name} is banned"


def package_of(path, tree):
    """The folder whose BUILD file is the nearest one beside or above a file; None without one."""
    folder = path.rpartition("/")[0]
    while f"{folder}/BUILD".lstrip("/") not in tree.paths:
        if not folder:
            return None
        folder = folder.rpartition("/")[0]
    return folder


def tests_are_built(tree):
    for path in tree.paths:
        if not re.search(r"_(test|benchmark)\.cc$", path):
            continue
        folder = package_of(path, tree)
        if folder is None:
            yield f"{path}:1: has no BUILD file beside or above it"
            continue
        build = f"{folder}/BUILD".lstrip("/")
        name = path[len(folder) :].lstrip("/")
        if f'"{name}"' not in tree.text(build):
            yield f"{path}:1: not named in {build}"


def readmes(tree):
    folders = {path.rpartition("/")[0] for path in tree.paths}
    for folder in list(folders):
        parts = folder.split("/")
        folders.update("/".join(parts[:count]) for count in range(1, len(parts)))
    for folder in sorted(folders - {""}):
        if folder.startswith((".", "third_party/", "tests/fuzz/corpus")):
            continue
        if f"{folder}/README.md" not in tree.paths:
            yield f"{folder}:1: no README.md"


# Folders that hash whole payloads; tests compare with the plain functions.
HASHES_PAYLOADS = ("common/wire/", "common/transport/", "server/shard/", "worker/")

INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)


def include_finding(path, target):
    """Why a file may not include a header; None where it may."""
    for prefix, homes in WALLED_INCLUDES.items():
        is_walled = re.match(prefix + r"(pp|\.|_|/)", target) or f".{prefix}." in target
        is_header = path.endswith(".h") or prefix == "zmq"
        if is_walled and is_header and not path.startswith(tuple(homes)):
            return f"includes {target} outside of its folder"
    return None


def includes(tree):
    for path in filter(is_source, tree.paths):
        text = tree.text(path)
        for match in INCLUDE.finditer(text):
            finding = include_finding(path, match.group(1))
            if finding:
                yield f"{path}:{text.count(chr(10), 0, match.start(1)) + 1}: {finding}"


def fast_checksums(tree):
    """Payloads are hashed with the processor's widest instructions; xxhash.h has the plain ones."""
    for path in filter(is_source, tree.paths):
        if not path.startswith(HASHES_PAYLOADS) or path.endswith("_test.cc"):
            continue
        targets = {match.group(1): match.start(1) for match in INCLUDE.finditer(tree.text(path))}
        if "xxhash.h" in targets and "xxh_x86dispatch.h" not in targets:
            line = tree.text(path).count("\n", 0, targets["xxhash.h"]) + 1
            yield f"{path}:{line}: includes xxhash.h without xxh_x86dispatch.h, which is faster"


def include_guards(tree):
    for path in tree.paths:
        if not path.endswith(".h"):
            continue
        guard = "STRATA_" + re.sub(r"[^A-Za-z0-9]", "_", path).upper() + "_"
        lines = tree.text(path).split("\n")
        expected = [f"#ifndef {guard}", f"#define {guard}"]
        if lines[:2] != expected or not tree.text(path).rstrip().endswith(f"#endif  // {guard}"):
            yield f"{path}:1: include guard is not {guard}"


def whitespace(tree):
    for path in tree.paths:
        if not path.endswith(TEXT + (".md",)):
            continue
        text = tree.text(path)
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                yield f"{path}:{number}: space at the end of the line"
            if "\t" in line:
                yield f"{path}:{number}: tab"
        if text and not text.endswith("\n"):
            yield f"{path}:{text.count(chr(10)) + 1}: no line break at the end"


ALL = (
    line_length,
    file_length,
    function_length,
    banned_calls,
    tests_are_built,
    readmes,
    includes,
    fast_checksums,
    include_guards,
    whitespace,
)
