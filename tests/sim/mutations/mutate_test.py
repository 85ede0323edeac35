"""Tests of mutate.py: a mutation changes exactly what it names, while it is on, or is refused."""

import unittest

import mutate

SOURCE = """\
const int kA = 1;
int F() {
  int b = 2;
  return kA + b;
}
struct S {
  S() : c_{4} {}
  int G() { return 5 + c_; }
  int c_;
};
"""


def edit(search, replacement):
    return f"<<<<\n{search}\n====\n{replacement}\n>>>>\n"


def mutation(*edits, source="x.cc"):
    head = f"fault: It is wrong.\nsource: {source}\ncaught by: order\n"
    return head + "".join(edits)


def built(**mutations):
    """The source with these built in, without the switches' definitions."""
    text = mutate.with_switches("x.cc", SOURCE, mutations)
    return text[text.index("const int") :]


class MutateTest(unittest.TestCase):
    def refused(self, text, why, source=SOURCE):
        with self.assertRaisesRegex(mutate.BadMutation, why):
            mutate.with_switches("x.cc", source, {"one": text})

    def test_a_body_is_what_the_switch_says(self):
        self.assertEqual(
            built(one=mutation(edit("  int b = 2;", "  int b = 3;"))),
            SOURCE.replace(
                "{\n  int b = 2;\n  return kA + b;\n}",
                "{\nif (::strata::mutants::one) {\n  int b = 3;\n  return kA + b;\n}"
                " else {\n  int b = 2;\n  return kA + b;\n}\n}",
            ),
        )

    def test_the_source_defines_a_switch_for_each_mutation_and_all_are_off(self):
        text = mutation(edit("  int b = 2;", "  int b = 3;"))
        output = mutate.with_switches("x.cc", SOURCE, {"two": text, "one": text})
        self.assertEqual(
            output[: output.index("const int")],
            "// Made by mutate.py of x.cc.\nnamespace strata::mutants {\n"
            "bool one = false;\nbool two = false;\n}  // namespace strata::mutants\n",
        )

    def test_mutations_may_change_the_same_body(self):
        self.assertEqual(
            built(
                two=mutation(edit("int b = 2;", "int b = 4;")),
                one=mutation(edit("int b = 2;", "int b = 3;")),
            ),
            SOURCE.replace(
                "{\n  int b = 2;\n  return kA + b;\n}",
                "{\nif (::strata::mutants::one) {\n  int b = 3;\n  return kA + b;\n}"
                " else if (::strata::mutants::two) {\n  int b = 4;\n  return kA + b;\n}"
                " else {\n  int b = 2;\n  return kA + b;\n}\n}",
            ),
        )

    def test_a_mutation_may_change_several_bodies_and_one_at_several_places(self):
        text = mutation(
            edit("  return kA + b;", "  return b;"),
            edit("  int G() { return 5 + c_; }", "  int G() { return 6 + c_; }"),
            edit("  int b = 2;", "  int b = 3;"),
        )
        self.assertEqual(
            built(one=text),
            SOURCE.replace(
                "{\n  int b = 2;\n  return kA + b;\n}",
                "{\nif (::strata::mutants::one) {\n  int b = 3;\n  return b;\n}"
                " else {\n  int b = 2;\n  return kA + b;\n}\n}",
            ).replace(
                "{ return 5 + c_; }",
                "{\nif (::strata::mutants::one) { return 6 + c_; } else { return 5 + c_; }\n}",
            ),
        )

    def test_lines_that_stay_may_lie_outside_of_the_body(self):
        text = mutation(edit("int F() {\n  int b = 2;", "int F() {\n  int b = 3;"))
        self.assertEqual(built(one=text), built(one=mutation(edit("b = 2;", "b = 3;"))))

    def test_an_edit_may_add_and_an_empty_replacement_removes(self):
        added = built(one=mutation(edit("int F() {", "int F() {\n  return 0;")))
        self.assertIn("one) {\n  return 0;\n  int b = 2;\n  return kA + b;\n} else {", added)
        removed = built(one=mutation("<<<<\n  int b = 2;\n====\n>>>>\n"))
        self.assertIn("one) {\n  return kA + b;\n} else {\n  int b = 2;", removed)

    def test_what_lies_in_no_body_cannot_be_changed(self):
        no_body = "changes x.cc:{}, which lies in no function's body"
        self.refused(mutation(edit("const int kA = 1;", "const int kA = 2;")), no_body.format(1))
        self.refused(mutation(edit("int F() {", "long F() {")), no_body.format(2))
        self.refused(mutation(edit("  S() : c_{4} {}", "  S() : c_{5} {}")), no_body.format(7))
        self.refused(mutation(edit("  int c_;", "  int c_ = 0;")), no_body.format(9))
        across = edit("  return kA + b;\n}\nstruct S {", "}\nstruct S {\n  int d;")
        self.refused(mutation(across), no_body.format(4))

    def test_a_body_must_stay_one(self):
        self.refused(mutation(edit("  int b = 2;", "  int b = {2;")), "a body of which braces do")
        self.refused(mutation(edit("  int b = 2;", "  }\n  {")), "ends a body early")
        self.refused(mutation(), "^x.cc: braces do not match at line 11", SOURCE + "}")

    def test_text_must_occur_exactly_once(self):
        self.refused(mutation(edit("int d;", "")), "^one: text occurs 0 times in x.cc")
        self.refused(mutation("<<<<\n\n====\nx\n>>>>\n"), "occurs 10 times")
        self.refused(mutation(edit("int b = 2;", "")), "occurs 2 times", SOURCE * 2)
        # The text of one edit may not come from another one.
        twice = mutation(edit("int b = 2;", "int d;"), edit("int d;", ""))
        self.refused(twice, "occurs 0 times")

    def test_edits_must_change_something_and_not_the_same(self):
        self.refused(mutation(edit("int b = 2;", "int b = 2;")), "changes nothing:\nint b = 2;")
        same = mutation(edit("int b = 2;", "int d;"), edit("  int b = 2;", "  int e;"))
        self.refused(same, "has edits of the same text")

    def test_names_its_source_and_fault(self):
        self.refused(mutation(edit("int b = 2;", ""), source="y.cc"), "is about y.cc, not x.cc")
        self.refused("source: x.cc\n" + edit("int b = 2;", ""), "no line 'fault: ...'")
        self.refused(mutation(), "has no edit")
        uncaught = mutation(edit("int b = 2;", "")).replace("caught by: order\n", "")
        self.refused(uncaught, "no line 'caught by: ...'")

    def test_a_profile_may_be_missing(self):
        self.assertEqual(mutate.field(mutation(), "profile", "all"), "all")
        self.assertEqual(mutate.field("profile: lossy\n", "profile", "all"), "lossy")

    def test_the_table_has_every_name_and_its_switch(self):
        output = mutate.table(["two", "one"])
        self.assertIn("extern bool one;\nextern bool two;\n", output)
        self.assertIn('      {"one", &one},\n      {"two", &two},\n', output)


if __name__ == "__main__":
    unittest.main()
