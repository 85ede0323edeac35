"""A fuzz target: LLVMFuzzerTestOneInput in NAME.cc, and seeds in corpus/NAME/."""

load("//third_party:cc.bzl", "cc_binary", "cc_test")

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
        args = ["tests/fuzz/corpus/" + name],
        data = native.glob(["corpus/" + name + "/**"]),
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
