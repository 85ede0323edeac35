"""The simulator with faults that a name turns on."""

load("//third_party:cc.bzl", "cc_binary")

def mutants(name, mutations):
    """A program `name` with all mutations built in, each behind a switch (mutate.py).

    Every source that mutations change is compiled once, with all of them, as an object of the
    program, ahead of the libraries: the linker then never takes the sound one out of its archive
    (and would refuse both).

    Args:
      name: The program.
      mutations: The name of each .mutation file here -> the label of the source that it changes.
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
    cc_binary(
        name = name,
        testonly = True,
        srcs = outputs + [name + "_table.cc"],
        # What a mutation no longer uses, and a switch's every way of returning, is no news.
        copts = ["-w"],
        linkstatic = True,
        deps = [":mutant_main"],
    )
