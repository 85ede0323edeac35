"""Tests of whole clusters: real processes on loopback."""

load("//third_party:cc.bzl", "cc_test")

def cluster_test(name, srcs, data = [], deps = [], size = "large", **kwargs):
    """A cc_test that starts clusters (cluster.h) and jobs (jobs.h).

    They mostly wait, for deadlines and for what they have killed, so that they run beside others.

    Args:
      name: as of cc_test.
      srcs: as of cc_test.
      data: as of cc_test; the `strata` binary comes with cluster.h.
      deps: what it needs beside cluster.h, jobs.h, Abseil and googletest.
      size: as of cc_test.
      **kwargs: other attributes of cc_test.
    """
    cc_test(
        name = name,
        size = size,
        srcs = srcs,
        data = data,
        deps = [
            "//tests/e2e/testing:cluster",
            "//tests/e2e/testing",
            "//third_party:absl",
            "//third_party:gtest_main",
        ] + deps,
        **kwargs
    )
