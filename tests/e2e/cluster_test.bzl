"""Tests of whole clusters: real processes on loopback."""

load("//third_party:cc.bzl", "cc_test")

def cluster_test(name, srcs, data = [], deps = [], size = "large", tags = ["exclusive"], **kwargs):
    """A cc_test that starts clusters (cluster.h) and jobs (jobs.h).

    Args:
      name: as of cc_test.
      srcs: as of cc_test.
      data: as of cc_test; the `strata` binary comes with cluster.h.
      deps: what it needs beside cluster.h, jobs.h, Abseil and googletest.
      size: as of cc_test.
      tags: by default, each keeps all cores busy, so they run one at a time.
      **kwargs: other attributes of cc_test.
    """
    cc_test(
        name = name,
        size = size,
        srcs = srcs,
        data = data,
        tags = tags,
        deps = [
            "//tests/e2e/testing:cluster",
            "//tests/e2e/testing:jobs",
            "//third_party:absl",
            "//third_party:gtest_main",
        ] + deps,
        **kwargs
    )
