"""Tests of clusters whose ranks compute on devices."""

load("//tests/e2e:cluster_test.bzl", "cluster_test")

def device_test(name, srcs, data = [], deps = [], size = "medium", tags = ["no-sanitizer"]):
    """A cluster_test on the fake devices.

    Args:
      name: as of cc_test.
      srcs: as of cc_test.
      data: what it needs beside the fake device.
      deps: what it needs beside device_jobs.h and what cluster_test brings.
      size: as of cc_test.
      tags: by default, sanitizers leave it out: the fake device has fibers, and addresses that
        fault.
    """
    cluster_test(
        name = name,
        size = size,
        srcs = srcs,
        data = ["//kernels/cuda:libstrata_fake_device.so"] + data,
        tags = tags,
        deps = deps,
    )
