"""Makes a root folder of Debian packages that are installed on this machine, without a network.

usage: fresh_root.py ROOT PACKAGE...
       fresh_root.py --closure PACKAGE...    prints the packages that would be there

The root gets Debian's essential packages, the packages named, and what these depend on: their files
(but documentation) as they lie here, and a dpkg database that knows of nothing else. So dpkg in it
refuses a package whose dependencies were not named, and programs in it find no library but theirs.
Alternatives ("a | b") and virtual packages are what is installed here. The maintainer scripts of
these packages do not run again; accounts are those of a new system. Needs root for the owners.
"""

import os
import re
import subprocess
import sys

STATUS = "/var/lib/dpkg/status"
INFO = "/var/lib/dpkg/info/"
LEFT_OUT = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/info/")


def read_installed(text):
    """Name -> fields of each package that a dpkg status file says is installed."""
    packages = {}
    for stanza in text.split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): *((?:.*)(?:\n .*)*)", stanza, re.M))
        if fields.get("Status", "").endswith(" installed"):
            fields["stanza"] = stanza.strip("\n") + "\n\n"
            packages.setdefault(fields["Package"], fields)
    return packages


def providers(packages):
    """Virtual name -> packages that provide it."""
    provided = {}
    for name, fields in packages.items():
        for word in re.findall(r"([\w.+-]+)[^,]*", fields.get("Provides", "")):
            provided.setdefault(word, []).append(name)
    return provided


def depends(fields):
    """The alternatives of each dependency: lists of names."""
    text = ", ".join(filter(None, (fields.get(key) for key in ("Pre-Depends", "Depends"))))
    return [
        [re.match(r"\s*([\w.+-]+)", one).group(1) for one in group.split("|")]
        for group in text.split(",")
        if group.strip()
    ]


def closure(packages, names):
    """The names and all that they depend on; raises LookupError for what is not installed."""
    provided = providers(packages)
    found, todo = set(), list(names)
    while todo:
        name = todo.pop()
        if name in found:
            continue
        if name not in packages:
            raise LookupError(f"{name} is not installed on this machine")
        found.add(name)
        for group in depends(packages[name]):
            real = [one for one in group if one in packages]
            real += [other for one in group for other in provided.get(one, [])]
            if not real:
                raise LookupError(f"{name} wants {' | '.join(group)}, which is not installed")
            if not found.intersection(real):
                todo.append(real[0])
    return found


def essential(packages):
    return [name for name, fields in packages.items() if fields.get("Essential") == "yes"]


def info_files(name, fields):
    """dpkg's own files of a package."""
    prefixes = (f"{name}.", f"{name}:{fields['Architecture']}.")
    return [INFO + file for file in os.listdir(INFO) if file.startswith(prefixes)]


def make_root(root, packages, names):
    files = {"/var/lib/dpkg/alternatives", "/var/lib/dpkg/info", "/var/lib/dpkg/updates"}
    files.add(INFO + "format")
    for name in sorted(names):
        own = info_files(name, packages[name])
        files.update(own)
        for path in own:
            if path.endswith(".list"):
                with open(path, encoding="utf-8") as opened:
                    files.update(line.rstrip("\n") for line in opened)
    # Debian's merged /usr: links that no package has.
    os.makedirs(root)
    for folder in ("bin", "lib", "lib64", "sbin"):
        os.makedirs(f"{root}/usr/{folder}", exist_ok=True)
        os.symlink(f"usr/{folder}", f"{root}/{folder}")
    files -= {"/.", "/bin", "/lib", "/lib64", "/sbin"}
    wanted = [p for p in sorted(files) if os.path.lexists(p) and not p.startswith(LEFT_OUT)]
    pack = ["tar", "-C", "/", "--null", "--no-recursion", "--files-from=-", "-cf", "-"]
    unpack = ["tar", "-C", root, "--keep-directory-symlink", "-xpf", "-"]
    with subprocess.Popen(pack, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as packing:
        with subprocess.Popen(unpack, stdin=packing.stdout) as unpacking:
            packing.stdout.close()
            packing.stdin.write("".join(p.lstrip("/") + "\0" for p in wanted).encode())
            packing.stdin.close()
    if packing.returncode or unpacking.returncode:
        raise OSError("tar failed")
    with open(f"{root}/var/lib/dpkg/status", "w", encoding="utf-8") as status:
        status.writelines(packages[name]["stanza"] for name in sorted(names))
    for name in ("passwd", "group"):
        subprocess.run(
            ["cp", f"/usr/share/base-passwd/{name}.master", f"{root}/etc/{name}"], check=True
        )
    subprocess.run(["/sbin/ldconfig", "-r", root], check=True)


def main(arguments):
    if len(arguments) < 2:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    with open(STATUS, encoding="utf-8") as opened:
        packages = read_installed(opened.read())
    root, names = arguments[0], arguments[1:]
    try:
        names = closure(packages, names + essential(packages))
        if root == "--closure":
            print("\n".join(sorted(names)))
        else:
            make_root(root, packages, names)
    except (LookupError, OSError) as error:
        print(f"fresh_root.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
