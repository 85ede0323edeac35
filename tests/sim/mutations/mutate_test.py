"""Tests of mutate.py: a mutation changes exactly what it names, while it is on, or is refused."""

import os
import tempfile
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


def mutation(*edits, name="one", source="x.cc"):
    head = f"mutation: {name}\nfault: It is wrong.\nsource: {source}\ncaught by: order\n"
    return head + "".join(edits)


def with_switches(*texts, source=SOURCE):
    mutations = [one for text in texts for one in mutate.parse("x.mutations", text)]
    return mutate.with_switches("x.cc", source, mutations)


def built(*texts):
    """The source with these built in, without the switches' definitions."""
    output = with_switches(*texts)
    return output[output.index("const int") :]


class MutateTest(unittest.TestCase):
    def refused(self, text, why, source=SOURCE):
        with self.assertRaisesRegex(mutate.BadMutation, why):
            with_switches(text, source=source)

    def test_a_body_is_what_the_switch_says(self):
        self.assertEqual(
            built(mutation(edit("  int b = 2;", "  int b = 3;"))),
            SOURCE.replace(
                "{\n  int b = 2;\n  return kA + b;\n}",
                "{\nif (::strata::mutants::one) {\n  int b = 3;\n  return kA + b;\n}"
                " else {\n  int b = 2;\n  return kA + b;\n}\n}",
            ),
        )

    def test_the_source_defines_a_switch_for_each_mutation_and_all_are_off(self):
        change = edit("  int b = 2;", "  int b = 3;")
        output = with_switches(mutation(change, name="two"), mutation(change, name="one"))
        self.assertEqual(
            output[: output.index("const int")],
            "// Made by mutate.py of x.cc.\nnamespace strata::mutants {\n"
            "bool one = false;\nbool two = false;\n}  // namespace strata::mutants\n",
        )

    def test_mutations_may_change_the_same_body(self):
        self.assertEqual(
            built(
                mutation(edit("int b = 2;", "int b = 4;"), name="two"),
                mutation(edit("int b = 2;", "int b = 3;"), name="one"),
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
            built(text),
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
        self.assertEqual(built(text), built(mutation(edit("b = 2;", "b = 3;"))))

    def test_an_edit_may_add_and_an_empty_replacement_removes(self):
        added = built(mutation(edit("int F() {", "int F() {\n  return 0;")))
        self.assertIn("one) {\n  return 0;\n  int b = 2;\n  return kA + b;\n} else {", added)
        removed = built(mutation("<<<<\n  int b = 2;\n====\n>>>>\n"))
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
        sound = mutation(edit("  int b = 2;", ""))
        self.refused(sound, "^x.cc: braces do not match at line 11", SOURCE + "}")

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

    def test_what_it_needs_must_be_there_and_only_once(self):
        whole = mutation(edit("int b = 2;", ""))
        for line in ("fault: It is wrong.", "source: x.cc", "caught by: order"):
            what = line.split(":")[0]
            self.refused(whole.replace(line + "\n", ""), f"^one: no line '{what}: ...'")
            self.refused(whole.replace(line, f"{line}\n{line}"), "^one: has a line twice")
        self.refused(mutation(), "^one: has no edit")

    def test_the_table_has_every_name_and_its_switch(self):
        output = mutate.table(["two", "one"])
        self.assertIn("extern bool one;\nextern bool two;\n", output)
        self.assertIn('      {"one", &one},\n      {"two", &two},\n', output)


class FileTest(unittest.TestCase):
    def refused(self, text, why):
        with self.assertRaisesRegex(mutate.BadMutation, why):
            mutate.parse("x.mutations", text)

    def test_a_file_has_mutations_with_all_that_they_say(self):
        first = mutation(edit("a", "b"), edit("c\nmutation: x", ""))
        second = "mutation: two\nfault: F\nsource: y.cc\ncaught by: it\nprofile: lossy\nseeds: 9\n"
        self.assertEqual(
            mutate.parse("x.mutations", first + "\n" + second + edit("d", "e")),
            [
                mutate.Mutation(
                    "one",
                    "It is wrong.",
                    "x.cc",
                    "order",
                    "all",
                    None,
                    [("a\n", "b\n"), ("c\nmutation: x\n", "\n")],
                ),
                mutate.Mutation("two", "F", "y.cc", "it", "lossy", "9", [("d\n", "e\n")]),
            ],
        )

    def test_text_that_belongs_to_no_mutation_is_refused_with_its_line(self):
        whole = mutation(edit("a", "b"))
        nowhere = "^x.mutations:{}: belongs to no mutation: {}$"
        self.refused("# All.\n" + whole, nowhere.format(1, "# All."))
        self.refused(whole + "fault: More.\n", nowhere.format(10, "fault: More."))
        self.refused(whole + "\nfault: More.\n" + whole, nowhere.format(11, "fault: More."))
        self.refused(whole + whole, nowhere.format(10, "mutation: one"))
        self.refused(whole.replace("caught by", "caught"), nowhere.format(4, "caught: order"))
        self.refused(whole.replace(">>>>\n", ""), nowhere.format(5, "<<<<"))
        self.refused(whole.replace("====\n", ""), nowhere.format(5, "<<<<"))
        # An edit that does not end takes no mutation along.
        unended = mutation(edit("a", "b"), edit("c", "d"))[: -len(">>>>\n")]
        self.refused(unended + "\n" + whole, nowhere.format(10, "<<<<"))

    def test_mutations_are_sorted_by_source_then_name(self):
        a, b = (mutation(edit("a", "b"), name=name) for name in "ab")
        other = mutation(edit("a", "b"), name="a", source="y.cc")
        self.refused(b + "\n" + a, "^x.mutations: a belongs before b$")
        self.refused(other + "\n" + b, "^x.mutations: b belongs before a$")
        self.assertEqual(len(mutate.parse("x.mutations", "\n".join([a, b, other]))), 3)

    def test_every_mutation_has_a_source_and_every_source_a_mutation(self):
        text = mutation(edit("a", "b")) + "\n" + mutation(edit("a", "b"), name="a", source="y.cc")
        one, other = mutate.parse("x.mutations", text)
        self.assertEqual(
            mutate.by_source([one, other], ["y.cc", "x.cc"]), {"y.cc": [other], "x.cc": [one]}
        )
        with self.assertRaisesRegex(mutate.BadMutation, "^a: BUILD does not list its source y.cc$"):
            mutate.by_source([one, other], ["x.cc"])
        with self.assertRaisesRegex(mutate.BadMutation, "^no mutation names y.cc, which BUILD"):
            mutate.by_source([one], ["x.cc", "y.cc"])


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)

    def made(self, **texts):
        """What is written of a source and of these .mutations files: the source and the table."""
        files = {"x.cc": SOURCE, **{f"{name}.mutations": text for name, text in texts.items()}}
        for name, text in files.items():
            with open(name, "w") as file:
                file.write(text)
        mutate.main("made/table.cc", "made", *files)
        return mutate.read("made/x.cc"), mutate.read("made/table.cc")

    def test_a_source_gets_its_mutations_from_all_files_and_the_table_names_them(self):
        one = mutation(edit("int b = 2;", "int b = 3;"))
        two = mutation(edit("int b = 2;", "int b = 4;"), name="two")
        source, table = self.made(x=two, y=one)
        self.assertEqual(source, with_switches(one, two))
        self.assertEqual(table, mutate.table(["one", "two"]))

    def test_a_name_that_is_there_twice_is_refused(self):
        text = mutation(edit("int b = 2;", "int b = 3;"))
        with self.assertRaisesRegex(SystemExit, "^y.mutations: there is another mutation one$"):
            self.made(x=text, y=text)
        with self.assertRaisesRegex(SystemExit, "^x.mutations: there is another mutation one$"):
            self.made(x=text + "\n" + text)


if __name__ == "__main__":
    unittest.main()
