"""Sources joined for the compiler, which then reads their headers once."""

JoinedInfo = provider(
    doc = "What is compiled together.",
    fields = {"units": "Lists of source files; those of a list are one unit of the compiler."},
)

def join_sources(context, files, name):
    """A source with the text of several, each under its own name for messages and __FILE__.

    It has their text rather than #include lines: files that a library's sources include would be
    headers to Bazel, and so an input of whatever depends on the library.

    Args:
      context: of the rule.
      files: at least one.
      name: of the file that is made.

    Returns:
      The file.
    """
    joined = context.actions.declare_file(name)
    arguments = context.actions.args()
    arguments.add_all(files)
    program = "FNR == 1 { print \"#line 1 \\\"\" FILENAME \"\\\"\" } 1"
    context.actions.run_shell(
        command = "awk '%s' \"$@\" > %s" % (program, joined.path),
        arguments = [arguments],
        inputs = files,
        outputs = [joined],
        mnemonic = "JoinSources",
        progress_message = "Joining " + joined.short_path,
    )
    return joined

def _joined_sources_impl(context):
    units, rest = [], context.files.srcs
    for size in context.attr.sizes:
        units.append(rest[:size])
        rest = rest[size:]
    if not context.attr.join:
        units = [[file] for file in context.files.srcs]
    outputs = []
    for number, files in enumerate(units):
        name = "%s_%d.cc" % (context.label.name, number + 1)
        outputs.append(files[0] if len(files) == 1 else join_sources(context, files, name))
    return [DefaultInfo(files = depset(outputs)), JoinedInfo(units = units)]

_joined_sources = rule(
    implementation = _joined_sources_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cc"], mandatory = True),
        "sizes": attr.int_list(mandatory = True, doc = "How many of srcs each unit has."),
        "join": attr.bool(mandatory = True),
    },
)

def joined_sources(name, units, **kwargs):
    """What a target names in its srcs: a source per unit, or all of them, as .bazelrc says.

    Args:
      name: of the target; a unit's source is NAME_1.cc and so on.
      units: lists of .cc files.
      **kwargs: as of any rule.
    """
    _joined_sources(
        name = name,
        srcs = [src for unit in units for src in unit],
        sizes = [len(unit) for unit in units],
        join = select({
            "//third_party:each_alone": False,
            "//conditions:default": True,
        }),
        # For the mutants of the simulator.
        visibility = ["//tests/sim/mutations:__pkg__"],
        **kwargs
    )
