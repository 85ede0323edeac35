"""Libraries that only some targets want: where one is not installed, those targets are skipped."""

# Name -> a file that is there when the library is.
LIBRARIES = {
    "gloo": "/usr/include/gloo/allreduce.h",
    "mpi": "/usr/include/x86_64-linux-gnu/mpi/mpi.h",
}

def _optional_libraries_impl(context):
    lines = []
    for name, path in LIBRARIES.items():
        missing = [] if context.path(path).exists else ["@platforms//:incompatible"]
        lines.append("NEEDS_{} = {}".format(name.upper(), missing))
    context.file("BUILD", "")
    context.file("defs.bzl", "\n".join(lines) + "\n")

# Looked at again whenever Bazel's server starts: after an installation, `bazel shutdown`.
optional_libraries = repository_rule(
    implementation = _optional_libraries_impl,
    local = True,
)
