#!/usr/bin/env python3
"""Each rule finds what it is for, and leaves what is right alone."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rules  # noqa: E402
import weight  # noqa: E402
from run import Tree  # noqa: E402


def found(rule, texts, **more):
    return list(rule(Tree(texts, **more)))


GUARDED = "#ifndef STRATA_A_B_H_\n#define STRATA_A_B_H_\n%s#endif  // STRATA_A_B_H_\n"


class RulesTest(unittest.TestCase):
    def test_line_length(self):
        self.assertEqual(found(rules.line_length, {"a.cc": "x" * 100 + "\n"}), [])
        self.assertEqual(
            found(rules.line_length, {"a.cc": "\n" + "x" * 101 + "\n"}),
            ["a.cc:2: line of 101 characters, more than 100"],
        )

    def test_file_length(self):
        self.assertEqual(found(rules.file_length, {"a.cc": "\n" * 1000, "a.h": "\n" * 300}), [])
        too_long = {"a.cc": "\n" * 1001, "a.h": "\n" * 301}
        self.assertEqual(len(found(rules.file_length, too_long)), 2)
        scripts = {"a.py": "\n" * 1001, "a.sh": "\n" * 1000}
        self.assertEqual(len(found(rules.file_length, scripts)), 1)

    def test_function_length(self):
        head = "namespace a {\nclass B {\n public:\n"
        declarations = head + "};\n" + "int x;\n" * 99
        self.assertEqual(found(rules.function_length, {"a.cc": declarations}), [])
        for signature in (
            "int F() {",
            "int F(int a,\n      int b) const {",
            "F::F(int a)\n    : a_(a) {",
            "TEST(A, B) {",
            "int F(const std::string& s = \"{\") noexcept {  // }",
        ):
            lines = signature.count("\n") + 2
            body = "  if (x) { y(); }\n"
            fits = f"{head}{signature}\n{body * (60 - lines)}}}\n}};\n}}\n"
            self.assertEqual(found(rules.function_length, {"a.cc": fits}), [], signature)
            longer = f"{head}{signature}\n{body * (61 - lines)}}}\n}};\n}}\n"
            self.assertEqual(
                found(rules.function_length, {"a.cc": longer}),
                ["a.cc:4: function of 61 lines, more than 60"],
                signature,
            )

    def test_weight(self):
        build = (
            'load("//a.bzl", "cc_test", "TAGS")\n'
            'cc_library(name = "a", srcs = ["a.cc", "a.h"], units = [["b.cc", "c.cc"]])\n'
            '[sh_test(name = "%s_test" % n, tags = TAGS + ["x"]) for n in ["d", "e"]]\n'
            'exports_files(["a.cc"])\n'
        )
        texts = {"a/BUILD": build, "a/README.md": "ä\n"}
        measured = {weight.MEASURED: "| **the suite, in all** | **3000**, which is 50 minutes |\n"}
        self.assertEqual(weight.weigh(Tree(measured))["suite_minutes"], 50)
        weighed = weight.weigh(Tree(texts))
        self.assertEqual((weighed["targets"], weighed["units"]), (3, 2))
        self.assertEqual((weighed["markdown_bytes"], weighed["folders"]), (3, 1))
        for stated, finding in (
            ("3 targets", None),
            ("2 targets", "3 targets, more than 2: make it lighter"),
            ("4 targets", "3 targets are left of 4: lower the number"),
            ("4 stones", "nothing counts stones"),
        ):
            listed = found(weight.weight, texts | {weight.FILE: stated + "\n"})
            self.assertEqual(listed, [f"{weight.FILE}:1: {finding}"] if finding else [])

    def test_function_ratchet_allows_no_more_than_it_says(self):
        text = "int Long(int a) {\n" + "  x();\n" * 68 + "}\n"
        for lines, findings in ((70, 0), (69, 1)):
            result = found(rules.function_length, {"a.cc": text}, ratchet={"a.cc:Long": lines})
            self.assertEqual(len(result), findings)

    def test_banned_calls(self):
        for line in (
            'x = getenv("A");',
            "std::this_thread::sleep_for(x);",
            "std::mutex m;",
            "std::shared_mutex m;",
            "auto* p = new Thing(1);",
            "p = new std::string;",
            "p = new (std::nothrow) int;",
            "delete p;",
            "delete[] p;",
            "return new int[5];",
            "a->reset(new Thing);",
        ):
            self.assertEqual(len(found(rules.banned_calls, {"a.cc": line + "\n"})), 1, line)
        for line in (
            "A(const A&) = delete;",
            "A& operator=(const A&) = delete;",
            "// a new thing, delete it, getenv()",
            'Log("new thing; delete it; getenv(x)");',
            "#include <new>",
            "return absl::WrapUnique(new Thing(1));",
            "return std::unique_ptr<Thing>(new Thing(1));",
            "std::unique_ptr<Thing> thing(\n    new Thing(1));",
            "int new_size = 1; x.deleted = 2;",
            "absl::SleepFor(x);",
            "absl::Mutex m;",
        ):
            self.assertEqual(found(rules.banned_calls, {"a.cc": line + "\n"}), [], line)

    def test_tests_are_built(self):
        texts = {"a/b_test.cc": "", "a/c_benchmark.cc": "", "a/BUILD": '"b_test.cc"'}
        self.assertEqual(
            found(rules.tests_are_built, texts), ["a/c_benchmark.cc:1: not named in a/BUILD"]
        )
        self.assertEqual(
            found(rules.tests_are_built, {"a/b_test.cc": ""}),
            ["a/b_test.cc:1: has no BUILD file beside or above it"],
        )

    def test_a_test_in_a_folder_without_a_build_file_is_named_by_its_path_from_the_one_above(self):
        texts = {"a/b/c_test.cc": "", "a/b/d_test.cc": "", "a/BUILD": '"b/c_test.cc" "d_test.cc"'}
        self.assertEqual(
            found(rules.tests_are_built, texts), ["a/b/d_test.cc:1: not named in a/BUILD"]
        )
        texts = {"d_test.cc": "", "BUILD": '"d_test.cc"'}
        self.assertEqual(found(rules.tests_are_built, texts), [])

    def test_readmes(self):
        texts = {"a/README.md": "", "a/b/c/x.cc": "", "a/b/README.md": "", ".ci/run": ""}
        self.assertEqual(found(rules.readmes, texts), ["a/b/c:1: no README.md"])

    def test_includes(self):
        for path, target in (
            ("a/b.h", "zmq.h"),
            ("a/b.cc", "zmq.hpp"),
            ("worker/agent/b.h", "proto/control.grpc.pb.h"),
            ("a/b.h", "grpcpp/grpcpp.h"),
            ("a/b.h", "grpc/grpc.h"),
            ("training/nn/b.h", "oneapi/dnnl/dnnl.hpp"),
            ("a/b.h", "spdlog/spdlog.h"),
        ):
            text = f"\n#include <{target}>\n"
            self.assertEqual(len(found(rules.includes, {path: text})), 1, (path, target))
        for path, target in (
            ("common/transport/zmq/b.h", "zmq.h"),
            ("server/coordinator/b.cc", "grpcpp/grpcpp.h"),
            ("training/nn/onednn/b.h", "dnnl.hpp"),
        ):
            text = f"#include \"{target}\"\n"
            self.assertEqual(found(rules.includes, {path: text}), [], (path, target))

    def test_fast_checksums(self):
        plain, fast = "#include <xxhash.h>\n", "#include <xxh_x86dispatch.h>\n"
        self.assertEqual(found(rules.fast_checksums, {"common/wire/a.cc": fast + plain}), [])
        self.assertEqual(found(rules.fast_checksums, {"common/wire/a_test.cc": plain}), [])
        self.assertEqual(
            found(rules.fast_checksums, {"common/wire/a.cc": "\n" + plain}),
            ["common/wire/a.cc:2: includes xxhash.h without xxh_x86dispatch.h, which is faster"],
        )

    def test_include_guards(self):
        self.assertEqual(found(rules.include_guards, {"a/b.h": GUARDED % ""}), [])
        for text in ("#pragma once\n", GUARDED.replace("A_B", "A_C") % "", "// x\n" + GUARDED % ""):
            self.assertEqual(len(found(rules.include_guards, {"a/b.h": text})), 1)

    def test_whitespace(self):
        self.assertEqual(found(rules.whitespace, {"a.cc": "x\n", "b.cc": ""}), [])
        self.assertEqual(len(found(rules.whitespace, {"a.cc": "x \n\ty\nz"})), 3)


if __name__ == "__main__":
    unittest.main()
