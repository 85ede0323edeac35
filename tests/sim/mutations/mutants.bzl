"""Programs of the simulator with one deliberate fault each."""

def mutant(name, source):
    """A program `name` like :pristine, with `source` replaced by its version after NAME.mutation.

    The faulty file is linked as an object of the program, ahead of the libraries: the linker then
    never takes the sound one out of its archive (and would refuse both).
    """
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = [
            name + ".mutation",
            source,
        ],
        outs = [name + ".cc"],
        cmd = "python3 $(location mutate.py) $(location {}.mutation) $(location {}) $@".format(
            name,
            source,
        ),
        tools = ["mutate.py"],
    )
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = [name + ".cc"],
        linkstatic = True,
        deps = [":mutant_main"],
    )
