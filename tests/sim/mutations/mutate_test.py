"""Tests of mutate.py: a mutation changes exactly what it names, or is refused."""

import unittest

import mutate

SOURCE = "int a = 1;\nint b = 2;\nint c = 1;\n"


def edit(search, replacement):
    return f"<<<<\n{search}\n====\n{replacement}\n>>>>\n"


def mutation(*edits, source="x.cc"):
    head = f"fault: It is wrong.\nsource: {source}\ncaught by: order\n"
    return head + "".join(edits)


class MutateTest(unittest.TestCase):
    def refused(self, text, why):
        with self.assertRaisesRegex(mutate.BadMutation, why):
            mutate.mutate(text, "x.cc", SOURCE)

    def test_makes_every_edit(self):
        text = mutation(edit("int b = 2;", "int b = 3;"), edit("int c = 1;", "int c = 4;"))
        self.assertEqual(
            mutate.mutate(text, "x.cc", SOURCE), "int a = 1;\nint b = 3;\nint c = 4;\n"
        )

    def test_an_empty_replacement_removes(self):
        text = mutation("<<<<\nint b = 2;\n====\n>>>>\n")
        self.assertEqual(mutate.mutate(text, "x.cc", SOURCE), "int a = 1;\nint c = 1;\n")

    def test_text_must_occur_exactly_once(self):
        self.refused(mutation(edit("int d;", "")), "occurs 0 times in x.cc")
        self.refused(mutation("<<<<\n\n====\nx\n>>>>\n"), "occurs 3 times")
        with self.assertRaisesRegex(mutate.BadMutation, "occurs 2 times"):
            mutate.mutate(mutation(edit("int b = 2;", "")), "x.cc", SOURCE * 2)

    def test_names_its_source_and_fault(self):
        self.refused(mutation(edit("int b = 2;", ""), source="y.cc"), "is about y.cc, not x.cc")
        self.refused("source: x.cc\n" + edit("int b = 2;", ""), "no line 'fault: ...'")
        self.refused(mutation(), "has no edit")
        uncaught = mutation(edit("int b = 2;", "")).replace("caught by: order\n", "")
        self.refused(uncaught, "no line 'caught by: ...'")

    def test_a_profile_may_be_missing(self):
        self.assertEqual(mutate.field(mutation(), "profile", "all"), "all")
        self.assertEqual(mutate.field("profile: lossy\n", "profile", "all"), "lossy")


if __name__ == "__main__":
    unittest.main()
