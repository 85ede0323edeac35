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

_PRECOMPILED = "//third_party/precompiled:"

def _use(header, copts):
    use = ["-Winvalid-pch", "-include", "third_party/precompiled/%s.h" % header] + copts
    in_use = _PRECOMPILED + "in_use"
    return dict(
        copts = select({in_use: use, "//conditions:default": []}),
        deps = select({in_use: [_PRECOMPILED + header], "//conditions:default": []}),
    )

def _within(folders):
    package = native.package_name()
    for folder in folders:
        if package == folder or package.startswith(folder + "/"):
            return True
    return False

def _may_use(srcs, copts):
    """C++, optimized as the headers are: gcc would take their level, without a word, for -O3."""
    is_cpp = bool(srcs) and not [src for src in srcs if src.endswith(".c")]
    return is_cpp and not [option for option in copts if option.startswith("-O")]

def _are_tests(srcs):
    return not [src for src in srcs if not src.endswith("_test.cc") and not src.endswith(".h")]

def _precompiled(rule, header, srcs, deps, copts, kwargs, header_copts = []):
    if _may_use(srcs, copts):
        use = _use(header, header_copts)
        deps = deps + use["deps"]
        copts = use["copts"] + copts
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
