"""Tests that run a program: one in Python, or one that is built, with arguments."""

def program_test(name, program = None, args = [], data = [], **kwargs):
    """A test that passes if a program ends with status 0. It runs in the root of the tree.

    Args:
      name: as of sh_test.
      program: path from the root; Python runs what ends with .py. By default NAME.py beside the
        BUILD file, which need not be in data.
      args: the program's; one that begins with "TEST_TMPDIR/" lies in the test's own folder.
      data: as of sh_test.
      **kwargs: as of sh_test.
    """
    if program == None:
        program = "%s/%s.py" % (native.package_name(), name)
        data = data + [name + ".py"]
    native.sh_test(
        name = name,
        srcs = ["//third_party:program_test.sh"],
        args = [program] + args,
        data = data,
        **kwargs
    )
