"""cc_library, cc_test and cc_binary as Bazel's own, with the headers of the system precompiled."""

# Tests in these folders compute much themselves; all others are compiled without optimization, in
# little more than half the time.
_OPTIMIZED_TESTS = [
    "compression",
    "kernels",
    "measure",
    "optimizer",
    "tests/fuzz",
    "tests/sim",
    "training",
]

_IN_USE = "//third_party/precompiled:in_use"

def _within(folders):
    package = native.package_name() + "/"
    return any([package.startswith(folder + "/") for folder in folders])

def _may_use(srcs, copts):
    """C++, optimized as the headers are: gcc would take their level, without a word, for -O3."""
    is_cpp = bool(srcs) and not any([src.endswith(".c") for src in srcs])
    return is_cpp and not any([option.startswith("-O") for option in copts])

def _are_tests(srcs):
    return all([src.endswith("_test.cc") or src.endswith(".h") for src in srcs])

def _precompiled(rule, header, srcs, deps, copts, kwargs, header_copts = []):
    if _may_use(srcs, copts):
        use = ["-Winvalid-pch", "-include", "third_party/precompiled/%s.h" % header] + header_copts
        copts = select({_IN_USE: use, "//conditions:default": []}) + copts
        deps = deps + select({
            _IN_USE: ["//third_party/precompiled:" + header],
            "//conditions:default": [],
        })
    rule(srcs = srcs, deps = deps, copts = copts, **kwargs)

def cc_library(srcs = [], deps = [], copts = [], **kwargs):
    """Bazel's cc_library; its sources find library_headers.h precompiled."""
    _precompiled(native.cc_library, "library", srcs, deps, copts, kwargs)

def cc_binary(srcs = [], deps = [], copts = [], **kwargs):
    """Bazel's cc_binary; its sources find library_headers.h precompiled."""
    _precompiled(native.cc_binary, "library", srcs, deps, copts, kwargs)

def cc_test(srcs = [], deps = [], copts = [], **kwargs):
    """Bazel's cc_test; its sources find test_headers.h precompiled."""
    if _within(_OPTIMIZED_TESTS) or not _are_tests(srcs):
        _precompiled(native.cc_test, "optimized_test", srcs, deps, copts, kwargs)
    else:
        _precompiled(native.cc_test, "test", srcs, deps, copts, kwargs, ["-O0"])
