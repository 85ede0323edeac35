"""Finds the bodies of functions in C++ source.

It knows as much of the language as source needs that clang-format has laid out and whose macros
hold no braces: a body is a block at namespace or class scope that follows a parameter list and what
may stand between the two. What it cannot place is no body. Braces that do not match, in all or
between the branches of an #if, are refused with BadSource.
"""

import re

TOKEN = re.compile(
    r"""
      (?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
    | (?P<skipped>\n|[^\S\n]+|//[^\n]*|/\*.*?\*/)
    | (?P<text>(?:u8|[uUL])?R"(?P<end>[^()\\\s]*)\(.*?\)(?P=end)"
        | (?:u8|[uUL])?"(?:\\.|[^"\\\n])*"
        | (?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
    | (?P<number>\.?\d(?:'?[\w.])*)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<sign>::|->|[=!<>]=|.)
    """,
    re.M | re.S | re.X,
)
CLASS_KEYS = ("class", "struct", "union")
ACCESS = ("public", "protected", "private")
# Words that may stand between parameters and a body, beside a macro, a type and initialisers.
QUALIFIERS = ("const", "volatile", "noexcept", "override", "final", "&", "()")
MACRO = re.compile(r"[A-Z][A-Z0-9_]+$")


class BadSource(Exception):
    pass


class Block:
    """A brace that is open, and what has been read in it since the last declaration."""

    def __init__(self, kind, begin):
        self.kind = kind  # "scope": a namespace or class; "function": its body; "other"
        self.begin = begin
        self.head = []  # tokens; "()" and "{}" stand for all that is in such a pair
        self.open_parentheses = 0

    def take(self, token):
        if token == "(":
            self.open_parentheses += 1
        elif token == ")":
            self.open_parentheses -= 1
            if self.open_parentheses == 0:
                self.head.append("()")
        elif self.open_parentheses == 0:
            is_access = token == ":" and len(self.head) == 1 and self.head[0] in ACCESS
            self.head = [] if token == ";" or is_access else self.head + [token]

    def kind_of_next(self):
        """What a brace opens that comes here."""
        if self.kind != "scope" or self.open_parentheses > 0:
            return "other"
        head = without_template(self.head)
        if "namespace" in head[:2] or head == ["extern", '"C"']:
            return "scope"
        if "=" in without_operator(head):
            return "other"
        if head and head[0] in CLASS_KEYS:
            return "scope"
        if any(ends_declarator(head, i) for i in range(1, len(head))):
            return "function"
        is_class = "()" not in head and any(key in head for key in CLASS_KEYS)
        return "scope" if is_class else "other"


def without_template(head):
    """Without the parameters of a template, which may name classes and have defaults."""
    while head and head[0] == "template":
        depth = 0
        for i, token in enumerate(head):
            depth += {"<": 1, ">": -1}.get(token, 0)
            if depth == 0 and token == ">":
                break
        head = head[i + 1 :]
    return head


def without_operator(head):
    """Without the signs that name an operator."""
    name = head.index("operator") if "operator" in head else len(head)
    signs = head[name:]
    return head[:name] + (signs[signs.index("()") :] if "()" in signs else signs)


def ends_declarator(head, i):
    """Whether head[i] is a parameter list after which a body may come."""
    if head[i] != "()":
        return False
    after = head[i + 1 :]
    while after and (after[0] in QUALIFIERS or MACRO.match(after[0])):
        after = after[1:]
    if not after or after[0] in ("->", "requires"):
        return True
    # A brace that follows the name of a member or base is the value of that.
    return after[0] == ":" and after[-1] in ("()", "{}", ".")


def check_branch(directive, depth, depths):
    """A block that is open at one end of a branch only would be counted once per branch."""
    word = re.match(r"\s*#\s*(\w*)", directive).group(1)
    if word.startswith("if"):
        depths.append(depth)
    elif word in ("else", "elif", "endif"):
        if not depths or depths[-1] != depth:
            raise BadSource(f"braces do not match before {directive.strip()}")
        if word == "endif":
            depths.pop()


def function_bodies(source):
    """(begin, end) of the bodies that lie in no other one: source[begin:end] is "{...}"."""
    found, depths = [], []
    blocks = [Block("scope", 0)]
    for match in TOKEN.finditer(source):
        token = match.group()
        if match.lastgroup == "skipped":
            continue
        if match.lastgroup == "directive":
            check_branch(token, len(blocks), depths)
        elif token == "{":
            blocks.append(Block(blocks[-1].kind_of_next(), match.start()))
        elif token == "}":
            closed = blocks.pop()
            if not blocks or closed.open_parentheses != 0:
                line = source.count("\n", 0, match.start()) + 1
                raise BadSource(f"braces do not match at line {line}")
            if closed.kind == "function":
                found.append((closed.begin, match.end()))
            if closed.kind == "other":
                blocks[-1].take("{}")
            else:
                blocks[-1].head = []
        else:
            blocks[-1].take(token)
    if len(blocks) != 1:
        raise BadSource("braces do not match at the end")
    return found
