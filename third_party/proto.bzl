"""C++ from .proto files, by the system's protoc and its gRPC plugin, as cc_library targets."""

load("//third_party:cc.bzl", "cc_library")

def strata_cc_proto(name, src, grpc_name = None, deps = [], visibility = None):
    """Compiles one .proto file to a cc_library, and its services to a second one.

    Args:
      name: the library with the messages.
      src: the .proto file; imports are written from the workspace's root.
      grpc_name: the library with the service stubs; none where the file has no service.
      deps: other strata_cc_proto targets whose files this one imports.
      visibility: of the library with the messages; the package's default where absent.
    """
    stem = src[:-len(".proto")]
    native.filegroup(
        name = name + "_src",
        srcs = [src] + [dep + "_src" for dep in deps],
    )
    native.genrule(
        name = name + "_gen",
        srcs = [src, ":" + name + "_src"],
        outs = [stem + ".pb.h", stem + ".pb.cc"],
        cmd = "protoc -I. --cpp_out=$(GENDIR) $(location %s)" % src,
    )
    cc_library(
        name = name,
        srcs = [stem + ".pb.cc"],
        hdrs = [stem + ".pb.h"],
        visibility = visibility,
        deps = deps + ["//third_party:protobuf"],
    )
    if grpc_name:
        native.genrule(
            name = grpc_name + "_gen",
            srcs = [src, ":" + name + "_src"],
            outs = [stem + ".grpc.pb.h", stem + ".grpc.pb.cc"],
            cmd = ("protoc -I. --grpc_out=$(GENDIR) " +
                   "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin $(location %s)" % src),
        )
        cc_library(
            name = grpc_name,
            srcs = [stem + ".grpc.pb.cc"],
            hdrs = [stem + ".grpc.pb.h"],
            deps = [":" + name, "//third_party:grpc"],
        )
