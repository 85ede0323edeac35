"""Files of a page, built into the binary."""

load("//third_party:cc.bzl", "cc_library")

def page_files(name, hdr, texts, visibility, namespace = "strata::compare"):
    """A cc_library with one string constant per text.

    Args:
      name: as of cc_library.
      hdr: the header that declares the constants.
      texts: constant -> the files that it holds, one after the other.
      visibility: as of cc_library.
      namespace: of the constants.
    """
    files = []
    for parts in texts.values():
        files += [part for part in parts if part not in files]
    lines = [
        "echo '#include \"%s/%s\"'" % (native.package_name(), hdr),
        "echo 'namespace %s {'" % namespace,
    ]
    for constant, parts in texts.items():
        lines += [
            "printf 'const char %s[] = R\"EMBED('" % constant,
            "cat " + " ".join(["$(location %s)" % part for part in parts]),
            "echo ')EMBED\";'",
        ]
    lines.append("echo '}  // namespace %s'" % namespace)
    native.genrule(
        name = name + "_gen",
        srcs = files,
        outs = [name + ".cc"],
        cmd = "{\n%s\n} > $@" % "\n".join(lines),
    )
    cc_library(
        name = name,
        srcs = [name + ".cc"],
        hdrs = [hdr],
        visibility = visibility,
    )
