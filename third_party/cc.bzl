"""cc_library, cc_test and cc_binary as Bazel's own, with the headers of the system precompiled.

A library or test has beside srcs `units`: lists of .cc files. Each list is compiled as if it were
one file (joined.bzl), as reading headers is most of what the compiler does. So names in anonymous
namespaces differ within a unit. What a file uses it still includes itself: `--config=alone`
compiles every file by itself.
"""

load(":joined.bzl", "joined_sources")

# Tests in these folders compute much themselves; all others are compiled without optimization, in
# little more than half the time.
_OPTIMIZED_TESTS = [
    "cli/bench",
    "kernels",
    "numerics",
    "server/shard",
    "tests/exchange",
    "tests/fuzz",
    "tests/sim",
    "training",
]

_IN_USE = "//third_party:precompiled_in_use"

def _within(folders):
    package = native.package_name() + "/"
    return any([package.startswith(folder + "/") for folder in folders])

def _may_use(srcs, copts):
    """C++, optimized as the headers are: gcc would take their level, without a word, for -O3."""
    is_cpp = bool(srcs) and not any([src.endswith(".c") for src in srcs])
    return is_cpp and not any([option.startswith("-O") for option in copts])

def _are_tests(srcs):
    return all([src.endswith("_test.cc") or src.endswith(".h") for src in srcs])

def _all_sources(srcs, units):
    return srcs + [src for unit in units for src in unit]

def _precompiled(rule, header, name, srcs, units, deps, copts, kwargs, header_copts = []):
    if _may_use(_all_sources(srcs, units), copts):
        use = ["-Winvalid-pch", "-include", "third_party/precompiled_%s.h" % header] + header_copts
        copts = select({_IN_USE: use, "//conditions:default": []}) + copts
        deps = deps + select({
            _IN_USE: ["//third_party:precompiled_" + header],
            "//conditions:default": [],
        })
    if units:
        joined_sources(
            name = name + "_units",
            units = units,
            testonly = header != "library" or kwargs.get("testonly", None),
        )
        srcs = srcs + [":%s_units" % name]
    rule(name = name, srcs = srcs, deps = deps, copts = copts, **kwargs)

def cc_library(name, srcs = [], units = [], deps = [], copts = [], **kwargs):
    """Bazel's cc_library with units; its sources find library_headers.h precompiled."""
    _precompiled(native.cc_library, "library", name, srcs, units, deps, copts, kwargs)

def cc_binary(name, srcs = [], deps = [], copts = [], linkopts = [], **kwargs):
    """Bazel's cc_binary; its sources find library_headers.h precompiled.

    It names only those libraries of the system that it uses, not all that its rooms do.
    """
    kwargs["linkopts"] = ["-Wl,--as-needed"] + linkopts
    _precompiled(native.cc_binary, "library", name, srcs, [], deps, copts, kwargs)

def cc_test(name, srcs = [], units = [], deps = [], copts = [], **kwargs):
    """Bazel's cc_test with units; its sources find test_headers.h precompiled."""
    if _within(_OPTIMIZED_TESTS) or not _are_tests(_all_sources(srcs, units)):
        _precompiled(native.cc_test, "optimized_test", name, srcs, units, deps, copts, kwargs)
    else:
        _precompiled(native.cc_test, "test", name, srcs, units, deps, copts, kwargs, ["-O0"])
