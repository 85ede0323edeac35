"""Fuzz targets: LLVMFuzzerTestOneInput in NAME.cc, and the seeds that make_corpus.py makes."""

load("//third_party:cc.bzl", "cc_binary", "cc_test")

def _fuzz_seeds_impl(context):
    folder = context.actions.declare_directory(context.label.name)
    context.actions.run_shell(
        command = "python3 %s %s" % (context.file.program.path, folder.path),
        inputs = [context.file.program] + context.files.srcs,
        outputs = [folder],
        mnemonic = "FuzzSeeds",
        progress_message = "Making the seeds of the fuzz targets",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([folder]), runfiles = context.runfiles([folder]))]

fuzz_seeds = rule(
    doc = "A folder with the seeds of every fuzz target, each in NAME/TARGET/.",
    implementation = _fuzz_seeds_impl,
    attrs = {
        "program": attr.label(allow_single_file = [".py"], doc = "make_corpus.py"),
        "srcs": attr.label_list(allow_files = True, doc = "What the program imports or reads."),
    },
)

def fuzz_target(name, deps):
    """Declares a test that replays the seeds, and a libFuzzer program that looks for more.

    Args:
      name: of NAME.cc; the test is NAME_corpus_test, the program is NAME.
      deps: what NAME.cc needs.
    """
    cc_test(
        name = name + "_corpus_test",
        size = "small",
        srcs = [
            name + ".cc",
            "replay_main.cc",
        ],
        args = ["$(location :seeds)/" + name],
        data = [":seeds"],
        deps = deps,
    )

    # Links with --config=fuzz only, see ../fuzz.sh.
    cc_binary(
        name = name,
        testonly = True,
        srcs = [name + ".cc"],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = deps,
    )
