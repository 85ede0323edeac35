"""Renders docs/python-api.md from the docstrings of python/strata; all.py writes it.

It reads the package without importing it, so it needs neither NumPy nor PyTorch.
"""

import ast
import inspect
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import document  # noqa: E402

MODULES = ("strata.torch", "strata", "strata.ray")
WIDTH = 100

TITLE = """# Python reference

<!-- Generated from the docstrings of python/strata by docs/generate/all.py. -->

Every name of `strata.torch`, `strata` and `strata.ray`. [python.md](python.md) and [ray.md](ray.md)
say how to use them.

"""


class Module:
    """A module's source: what it defines, and where the names come from that it imports."""

    def __init__(self, root, name):
        self.root = root
        path = os.path.join(root, "python", *name.split("."))
        path = os.path.join(path, "__init__.py") if os.path.isdir(path) else path + ".py"
        with open(path, encoding="utf-8") as file:
            self.tree = ast.parse(file.read())
        self.sources = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in self.tree.body
            if isinstance(node, ast.ImportFrom) and node.module.startswith("strata")
            for alias in node.names
        }

    def exported(self):
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                return [item.value for item in node.value.elts]
        return []

    def definition(self, name):
        """Returns what a name stands for: of overloads the last, which has the text."""
        if name in self.sources:
            return Module(self.root, self.sources[name][0]).definition(self.sources[name][1])
        found = [node for node in self.tree.body if getattr(node, "name", None) == name]
        return found[-1]


def doc(node):
    """Returns a docstring as Markdown: its names of errors are those that scripts know."""
    text = ast.get_docstring(node) or ""
    return re.sub(r"`errors\.(\w+)`", r"`strata.\1`", text)


def signature(name, function, is_method):
    parts = split(ast.unparse(function.args))[int(is_method) :]
    # As formatters write it: "samples: int = 1".
    parts = [re.sub(r"^(\w+: .*?)=", r"\1 = ", part).replace("'", '"') for part in parts]
    text = f"{name}({', '.join(parts)})"
    returned = ast.unparse(function.returns) if function.returns else "None"
    text += "" if returned in ("None", "NoReturn") else f" -> {returned}"
    if len(text) > WIDTH:
        text = f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + ")"
        text += "" if returned == "None" else f" -> {returned}"
    return ["```python", text, "```", ""]


def split(text):
    """Splits arguments at the commas that are in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[({") - (letter in "])}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def is_public(node):
    return isinstance(node, ast.FunctionDef) and not node.name.startswith("_")


def has_decorator(node, name):
    return any(ast.unparse(each).split("(")[0].endswith(name) for each in node.decorator_list)


def fields(node):
    """Yields a row for each field of a class, with the docstring below it."""
    for field, below in zip(node.body, node.body[1:] + [None]):
        if isinstance(field, ast.AnnAssign) and field.value is not None:
            text = ""
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                text = inspect.cleandoc(below.value.value)
            default, text = ast.unparse(field.value), document.escape(text) or "-"
            yield f"| `{field.target.id}` | `{default}` | {text} |"


def properties(node):
    for method in node.body:
        if is_public(method) and has_decorator(method, "property"):
            yield f"| `{method.name}` | {document.escape(' '.join(doc(method).split()))} |"


def class_lines(name, node):
    yield from (doc(node), "")
    rows = list(fields(node))
    if rows:
        yield from ("| Field | Default | Meaning |", "| --- | --- | --- |", *rows, "")
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            yield from signature(name, method, is_method=True)
            yield from (doc(method), "")
    rows = list(properties(node))
    if rows:
        yield from ("| Property | Meaning |", "| --- | --- |", *rows, "")
    for method in node.body:
        if (
            is_public(method)
            and not has_decorator(method, "property")
            and not has_decorator(method, "setter")
        ):
            yield from signature(method.name, method, is_method=True)
            yield from (doc(method), "")


def module_lines(root, name, already):
    module = Module(root, name)
    yield from (f"## {name}", "")
    for exported in module.exported():
        node = module.definition(exported)
        if ast.dump(node) in already:
            continue
        already.add(ast.dump(node))
        yield from (f"### {name}.{exported}", "")
        if isinstance(node, ast.ClassDef):
            bases = [
                ast.unparse(base) for base in node.bases if ast.unparse(base) in module.exported()
            ]
            yield from class_lines(exported, node)
            yield from ([f"Has all that `{name}.{bases[0]}` has.", ""] if bases else [])
        else:
            yield from signature(exported, node, is_method=False)
            yield from (doc(node), "")


def page(root):
    """The page of the tree at `root`."""
    already, lines = set(), []
    for name in reversed(MODULES):
        own = list(module_lines(root, name, already))
        lines = own + lines
    return TITLE + re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"
