"""CUDA C++ by nvcc, where it is installed."""

load("@optional_libraries//:defs.bzl", "CUDA_ROOT", "NEEDS_CUDA")

# What there is code for; PTX lets later devices compile their own.
ARCHITECTURES = [
    "arch=compute_80,code=sm_80",
    "arch=compute_90,code=sm_90",
    "arch=compute_90,code=compute_90",
]

def _cuda_objects_impl(context):
    headers = depset(transitive = [
        dep[CcInfo].compilation_context.headers
        for dep in context.attr.deps
    ])
    objects = []
    for source in context.files.srcs:
        # Position-independent, which is what Bazel takes the name for.
        name = source.short_path.replace(".", "_").replace("/", "_")
        object = context.actions.declare_file(name + ".pic.o")
        arguments = context.actions.args()
        arguments.add_all(["-std=c++20", "-O3", "-I.", "-I" + context.genfiles_dir.path])

        # As on the CPU: products and sums are rounded separately.
        arguments.add("--fmad=false")
        arguments.add_all(ARCHITECTURES, before_each = "-gencode")
        arguments.add_all(["-Xcompiler", "-fPIC,-Wall,-Wno-unused-parameter"])
        arguments.add_all(["-c", source, "-o", object])
        context.actions.run_shell(
            command = "PATH=/usr/bin:/bin exec {}/bin/nvcc \"$@\"".format(CUDA_ROOT),
            arguments = [arguments],
            inputs = depset([source] + context.files.textual_hdrs, transitive = [headers]),
            outputs = [object],
            mnemonic = "CudaCompile",
            progress_message = "Compiling " + source.path,
        )
        objects.append(object)
    return [DefaultInfo(files = depset(objects))]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu", ".cc"]),
        "textual_hdrs": attr.label_list(allow_files = [".cuh"]),
        "deps": attr.label_list(providers = [CcInfo]),
    },
)

def cuda_objects(name, srcs, textual_hdrs = [], deps = []):
    """Object files, to be named among a target's srcs; skipped where there is no nvcc.

    Args:
      name: of the target.
      srcs: .cu files, and .cc files that include CUDA's headers.
      textual_hdrs: .cuh files beside them.
      deps: cc_library targets whose headers they include.
    """
    _cuda_objects(
        name = name,
        srcs = srcs,
        textual_hdrs = textual_hdrs,
        target_compatible_with = NEEDS_CUDA,
        deps = deps,
    )
