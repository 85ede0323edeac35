"""What fresh_root.py reads of dpkg's database, and follows."""

import unittest

import fresh_root

STATUS = """Package: base
Essential: yes
Status: install ok installed
Depends: library (>= 2), mailer | other

Package: library
Status: install ok installed
Pre-Depends: deeper

Package: deeper
Status: install ok installed
Provides: mailer, deep (= 1)
Description: short
 long: Package: none

Package: gone
Status: deinstall ok config-files
"""


class FreshRoot(unittest.TestCase):
    def setUp(self):
        self.packages = fresh_root.read_installed(STATUS)

    def test_what_is_not_installed_is_left_out(self):
        self.assertEqual(sorted(self.packages), ["base", "deeper", "library"])

    def test_each_package_keeps_its_whole_stanza(self):
        self.assertIn("\n long: Package: none\n\n", self.packages["deeper"]["stanza"])

    def test_dependencies_are_followed_with_virtual_packages(self):
        self.assertEqual(
            fresh_root.closure(self.packages, ["base"]), {"base", "library", "deeper"}
        )

    def test_what_nothing_provides_is_an_error_that_names_it(self):
        del self.packages["deeper"]["Provides"]
        with self.assertRaisesRegex(LookupError, "base wants mailer | other"):
            fresh_root.closure(self.packages, ["base"])
        with self.assertRaisesRegex(LookupError, "gone is not installed"):
            fresh_root.closure(self.packages, ["gone"])

    def test_essential_packages_are_known(self):
        self.assertEqual(fresh_root.essential(self.packages), ["base"])


if __name__ == "__main__":
    unittest.main()
