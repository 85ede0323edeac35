"""The simulator with faults that a name turns on."""

load("//third_party:cc.bzl", "cc_binary")
load("//third_party:joined.bzl", "JoinedInfo", "join_sources")

def _mutated_units_impl(context):
    mutated = {
        file.path: made
        for file, made in zip(context.files.originals, context.files.mutated)
    }
    outputs, number = [], 0
    for library in context.attr.units:
        for unit in library[JoinedInfo].units:
            if not any([file.path in mutated for file in unit]):
                continue
            number += 1
            files = [mutated.get(file.path, file) for file in unit]
            outputs.append(join_sources(context, files, "%s_%d.cc" % (context.label.name, number)))
            for file in unit:
                mutated.pop(file.path, None)

    # The files that its library compiles by themselves.
    return [DefaultInfo(files = depset(outputs + mutated.values()))]

_mutated_units = rule(
    doc = "The units that have a source with mutations, with that in place of the sound one.",
    implementation = _mutated_units_impl,
    attrs = {
        "originals": attr.label_list(allow_files = [".cc"], doc = "The sound sources."),
        "mutated": attr.label_list(allow_files = [".cc"], doc = "With mutations; as many."),
        "units": attr.label_list(providers = [JoinedInfo], doc = "Of what has the originals."),
    },
)

def mutants(name, sources, units):
    """A program `name` with all mutations built in, each behind a switch (mutate.py).

    Every source that mutations change is compiled once, with all of them and with the rest of its
    unit, as an object of the program, ahead of the libraries: the linker then never takes the sound
    one out of its archive (and would refuse both).

    Args:
      name: The program.
      sources: Package -> its sources that the .mutations files here change.
      units: LIBRARY_units of each library with such a source, unless it compiles it by itself.
    """
    originals = [
        "%s:%s" % (package, source)
        for package in sources
        for source in sources[package]
    ]
    mutated = ["mutated/" + label[len("//"):].replace(":", "/") for label in originals]
    table = name + "_table.cc"
    native.genrule(
        name = name + "_sources",
        testonly = True,
        srcs = originals + native.glob(["*.mutations"]),
        outs = [table] + mutated,
        cmd = "python3 $(location mutate.py) $(location %s) $(RULEDIR)/mutated $(SRCS)" % table,
        tools = ["mutate.py", "function_bodies.py"],
    )
    _mutated_units(
        name = name + "_units",
        testonly = True,
        originals = originals,
        mutated = mutated,
        units = units,
    )
    cc_binary(
        name = name,
        testonly = True,
        srcs = [":%s_units" % name, table],
        # A mutation may leave names unused and switches without a return.
        copts = ["-w"],
        linkstatic = True,
        deps = [":mutations"],
    )
