"""Precompiled headers: what most sources include of the system, read by the compiler once."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(context):
    toolchain = find_cpp_toolchain(context)
    features = cc_common.configure_features(
        ctx = context,
        cc_toolchain = toolchain,
        requested_features = context.features,
        unsupported_features = context.disabled_features,
    )

    # Where the compiler cannot use NAME.h.gch, it reads NAME.h.
    header = context.actions.declare_file(context.label.name + ".h")
    precompiled = context.actions.declare_file(context.label.name + ".h.gch")
    context.actions.write(header, '#include "{}"\n'.format(context.file.src.path))

    # The very options of the sources that use it, or the compiler refuses it.
    options = context.fragments.cpp.copts + context.fragments.cpp.cxxopts + context.attr.copts
    arguments = cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = CPP_COMPILE_ACTION_NAME,
        variables = cc_common.create_compile_variables(
            cc_toolchain = toolchain,
            feature_configuration = features,
            source_file = header.path,
            output_file = precompiled.path,
            quote_include_directories = depset(["."]),
            use_pic = True,
            user_compile_flags = options + ["-xc++-header"],
        ),
    )
    headers = depset([header, context.file.src] + context.files.deps)
    context.actions.run(
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
        ),
        arguments = arguments,
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = cc_common.empty_variables(),
        ),
        inputs = depset(transitive = [headers, toolchain.all_files]),
        outputs = [precompiled],
        mnemonic = "PrecompileHeader",
        progress_message = "Precompiling " + context.file.src.path,
    )
    return [CcInfo(compilation_context = cc_common.create_compilation_context(
        headers = depset([precompiled], transitive = [headers]),
    ))]

precompiled_header = rule(
    doc = "NAME.h.gch of a header that includes nothing but the system's headers.",
    implementation = _precompiled_header_impl,
    attrs = {
        "src": attr.label(allow_single_file = [".h"], mandatory = True),
        "deps": attr.label_list(allow_files = [".h"], doc = "Headers of ours that it includes."),
        "copts": attr.string_list(doc = "As of the targets that use it."),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
