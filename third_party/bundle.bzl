"""What programs are linked with that deploy/bundle.sh packs."""

# Libraries of a bundle lie in ../lib/strata beside its programs; where that folder is not, the
# system's are taken. The old kind of tag, which libraries of libraries follow, too.
BUNDLED = [
    "-Wl,--disable-new-dtags",
    "-Wl,-rpath,'$$ORIGIN/../lib/strata'",
]
