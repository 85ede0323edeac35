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

    # What its library compiles by itself.
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

def mutants(name, mutations, units):
    """A program `name` with all mutations built in, each behind a switch (mutate.py).

    Every source that mutations change is compiled once, with all of them and with the rest of its
    unit, as an object of the program, ahead of the libraries: the linker then never takes the sound
    one out of its archive (and would refuse both).

    Args:
      name: The program.
      mutations: The name of each .mutation file here -> the label of the source that it changes.
      units: LIBRARY_units of each library with such a source, unless it compiles it by itself.
    """
    described = [file[:-len(".mutation")] for file in native.glob(["*.mutation"])]
    if sorted(described) != sorted(mutations):
        fail("mutations without a source: {}, without a file: {}".format(
            [one for one in described if one not in mutations],
            [one for one in mutations if one not in described],
        ))

    of_source = {}
    for mutation, source in mutations.items():
        of_source.setdefault(source, []).append(mutation + ".mutation")

    tools = ["mutate.py", "function_bodies.py"]
    outputs = []
    for source, files in of_source.items():
        output = "mutated/" + source[len("//"):].replace(":", "/")
        outputs.append(output)
        native.genrule(
            name = output + "_source",
            testonly = True,
            srcs = [source] + files,
            outs = [output],
            cmd = "python3 $(location mutate.py) source $@ " + " ".join(
                ["$(location {})".format(file) for file in [source] + files],
            ),
            tools = tools,
        )
    native.genrule(
        name = name + "_table",
        testonly = True,
        outs = [name + "_table.cc"],
        cmd = "python3 $(location mutate.py) table $@ " + " ".join(mutations),
        tools = tools,
    )
    _mutated_units(
        name = name + "_units",
        testonly = True,
        originals = of_source.keys(),
        mutated = outputs,
        units = units,
    )
    cc_binary(
        name = name,
        testonly = True,
        srcs = [":%s_units" % name, name + "_table.cc"],
        # What a mutation no longer uses, and a switch's every way of returning, is no news.
        copts = ["-w"],
        linkstatic = True,
        deps = [":mutations"],
    )
