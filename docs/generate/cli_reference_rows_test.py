"""Rows of docs/cli.md: what `--help` says of an option lands in the right column, as Markdown."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_reference import option_row  # noqa: E402


class Rows(unittest.TestCase):
    def test_the_default_ends_at_its_own_bracket(self):
        self.assertEqual(
            option_row("--interface TEXT", "Binds (default: that (of now)): a net (10.0.0.0/24)"),
            "| `--interface` | text | that (of now) | Binds: a net (10.0.0.0/24) |")
        self.assertEqual(option_row("--name TEXT", "A name (default: any)"),
                         "| `--name` | text | any | A name |")
        self.assertEqual(option_row("--name TEXT", "A name (a default)"),
                         "| `--name` | text | - | A name (a default) |")

    def test_a_choice_of_values_does_not_break_the_table(self):
        self.assertEqual(option_row("--resume DIR|JOB_ID", "Go on"),
                         "| `--resume` | DIR\\|JOB_ID | - | Go on |")

    def test_a_value_that_may_be_left_out_is_not_the_default_of_its_option(self):
        self.assertEqual(
            option_row("--web TEXT=127.0.0.1:8265", "A page, too; at HOST:PORT, if one is given"),
            "| `--web` | text; `127.0.0.1:8265` where none is given | - | "
            "A page, too; at HOST:PORT, if one is given |")
        self.assertEqual(option_row("--listen TEXT=127.0.0.1:8265", "Where it listens"),
                         "| `--listen` | text | `127.0.0.1:8265` | Where it listens |")


if __name__ == "__main__":
    unittest.main()
