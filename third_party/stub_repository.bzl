"""Stubs of repositories that Bazel 4.2 would download."""

def _stub_repository_impl(context):
    for path, text in context.attr.files.items():
        context.file(path, text)

stub_repository = repository_rule(
    doc = "A repository that has these files, and nothing else.",
    implementation = _stub_repository_impl,
    attrs = {"files": attr.string_dict(mandatory = True, doc = "Path -> text.")},
)

# The C++ rules under the names that Bazel's own repositories load, as Bazel 4.2's native rules.
RULES_CC = {
    "BUILD": "",
    "cc/BUILD": "",
    "cc/defs.bzl": "".join(["{0} = native.{0}\n".format(name) for name in [
        "cc_binary",
        "cc_import",
        "cc_library",
        "cc_proto_library",
        "cc_test",
        "cc_toolchain",
        "cc_toolchain_suite",
        "fdo_prefetch_hints",
        "fdo_profile",
        "objc_library",
    ]]),
}

# Bazel names these two targets whenever it runs a test; coverage is not collected through them.
REMOTE_COVERAGE_TOOLS = {
    "BUILD": "".join([
        "filegroup(name = \"%s\", visibility = [\"//visibility:public\"])\n" % name
        for name in ["coverage_report_generator", "lcov_merger"]
    ]),
}
