"""Tests in pytest, run by an interpreter of deploy/python_env.sh."""

def python_test(name, srcs, env = "torch-2.11", size = "medium", data = [], tags = [], **kwargs):
    """A test of Bazel's that runs pytest on some files; each of pytest's cases is counted.

    In it PYTHONPATH has the package of the source tree, STRATA_CLIENT_LIBRARY is the library and
    STRATA_COMMAND the program that were built, and `strata` is on PATH, too.

    Args:
      name: of the test.
      srcs: files for pytest; a `conftest.py` belongs into data.
      env: an environment of deploy/python_env.sh, made before, as tests/run.sh does.
      size: as of sh_test.
      data: what else lies in the test's folder.
      tags: as of sh_test.
      **kwargs: as of sh_test.
    """
    native.sh_test(
        name = name,
        size = size,
        srcs = ["//python:run_pytest.sh"],
        args = [env] + ["$(location {})".format(src) for src in srcs],
        data = srcs + data + [
            "//cli:strata",
            "//deploy:python_env",
            "//python:package",
            "//worker/client/c:libstrata_client.so.1",
        ],
        tags = tags,
        **kwargs
    )
