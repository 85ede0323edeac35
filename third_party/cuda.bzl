"""CUDA C++ by nvcc, where it is installed."""

load("@optional_libraries//:defs.bzl", "CUDA_ROOT", "NEEDS_CUDA")

# Architectures with code; PTX lets later devices compile their own.
ARCHITECTURES = [
    "arch=compute_80,code=sm_80",
    "arch=compute_90,code=sm_90",
    "arch=compute_90,code=compute_90",
]

# Architectures for which the compiler's back end is queried.
ASSEMBLED_FOR = ["80", "90"]

def _headers(context):
    headers = depset(transitive = [
        dep[CcInfo].compilation_context.headers
        for dep in context.attr.deps
    ])

    # nvcc cannot use headers precompiled by gcc.
    return depset([header for header in headers.to_list() if header.extension != "gch"])

def _arguments(context):
    arguments = context.actions.args()
    arguments.add_all(["-std=c++20", "-O3", "-I.", "-I" + context.genfiles_dir.path])

    # As on the CPU: products and sums are rounded separately.
    arguments.add("--fmad=false")
    return arguments

# nvcc names its temporary files by its process number, which means nothing where each action has a
# process namespace of its own and all share /tmp.
_NVCC = ("export PATH=/usr/bin:/bin TMPDIR=$PWD/nvcc.$$ && mkdir $TMPDIR && " +
         "trap 'rm -r $TMPDIR' EXIT && {root}/bin/nvcc \"$@\"").format(root = CUDA_ROOT)

def _name(source):
    return source.short_path.replace(".", "_").replace("/", "_")

def _cuda_objects_impl(context):
    headers = _headers(context)
    objects = []
    for source in context.files.srcs:
        # Position-independent, which is what Bazel takes the name for.
        object = context.actions.declare_file(_name(source) + ".pic.o")
        arguments = _arguments(context)
        arguments.add_all(ARCHITECTURES, before_each = "-gencode")
        arguments.add_all(["-Xcompiler", "-fPIC,-Wall,-Wno-unused-parameter"])
        arguments.add_all(["-c", source, "-o", object])
        context.actions.run_shell(
            command = _NVCC,
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

def _cuda_assembly_impl(context):
    headers = _headers(context)
    outputs = []
    for source in context.files.srcs:
        for architecture in ASSEMBLED_FOR:
            name = "{}.sm_{}".format(_name(source), architecture)
            ptx = context.actions.declare_file(name + ".ptx")
            report = context.actions.declare_file(name + ".txt")
            arguments = _arguments(context)
            arguments.add_all(["-arch=compute_" + architecture, "-ptx", source, "-o", ptx])
            context.actions.run_shell(
                command = _NVCC + (" && " +
                           "{root}/bin/ptxas -v -arch=sm_{architecture} {ptx} -o /dev/null " +
                           "> {report} 2>&1 || {{ cat {report} >&2; false; }}").format(
                    root = CUDA_ROOT,
                    architecture = architecture,
                    ptx = ptx.path,
                    report = report.path,
                ),
                arguments = [arguments],
                inputs = depset([source] + context.files.textual_hdrs, transitive = [headers]),
                outputs = [ptx, report],
                mnemonic = "CudaAssembly",
                progress_message = "Assembling {} for sm_{}".format(source.path, architecture),
            )
            outputs += [ptx, report]
    files = depset(outputs)
    return [DefaultInfo(files = files, runfiles = context.runfiles(files = outputs))]

_cuda_assembly = rule(
    implementation = _cuda_assembly_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "textual_hdrs": attr.label_list(allow_files = [".cuh"]),
        "deps": attr.label_list(providers = [CcInfo]),
    },
)

def cuda_assembly(name, srcs, textual_hdrs = [], deps = []):
    """What nvcc makes of kernels: for each source SOURCE.sm_NN.ptx, and ptxas's report in .txt.

    Args:
      name: of the target; skipped where there is no nvcc.
      srcs: .cu files.
      textual_hdrs: .cuh files beside them.
      deps: cc_library targets whose headers they include.
    """
    _cuda_assembly(
        name = name,
        testonly = True,
        srcs = srcs,
        textual_hdrs = textual_hdrs,
        target_compatible_with = NEEDS_CUDA,
        deps = deps,
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
