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

    # Not a file at a fixed place: CUDA's root, or the default where it is not installed.
    nvcc = context.which("nvcc")
    candidates = [context.os.environ.get("CUDA_PATH"), nvcc and str(nvcc.dirname.dirname)]
    candidates = [root for root in candidates + ["/usr/local/cuda"] if root]
    found = [root for root in candidates if context.path(root + "/bin/nvcc").exists]
    lines.append("NEEDS_CUDA = {}".format([] if found else ["@platforms//:incompatible"]))
    lines.append("HAS_CUDA = {}".format(bool(found)))
    lines.append("CUDA_ROOT = \"{}\"".format(found[0] if found else "/usr/local/cuda"))

    # cuDNN's headers, which the plugin for CUDA is compiled with; the library is found at run time.
    headers = [root + "/include/cudnn.h" for root in found[:1] + ["/usr"]]
    has_cudnn = bool(found) and any([context.path(header).exists for header in headers])
    lines.append("HAS_CUDNN = {}".format(has_cudnn))
    context.file("BUILD", "")
    context.file("defs.bzl", "\n".join(lines) + "\n")

# Looked at again whenever Bazel's server starts: after an installation, `bazel shutdown`.
optional_libraries = repository_rule(
    implementation = _optional_libraries_impl,
    environ = ["CUDA_PATH"],
    local = True,
)
