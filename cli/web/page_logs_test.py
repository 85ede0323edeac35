"""The log on a job's page in headless Chromium: whose, how it grows, and who may not see it."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.abspath("cli/web"))
import sample_web  # noqa: E402
from web_case import WebCase, shown  # noqa: E402

AT_END = """(log => log.scrollTop + log.clientHeight > log.scrollHeight - 4)(
    document.getElementById('log'))"""


class PageLogsTest(WebCase):
    def test_a_jobs_log_is_shown_where_somebody_asks_for_it_and_grows(self):
        self.open("#/job/3")
        self.assertEqual(self.texts(".log"), [])
        self.click("show what the ranks write")
        self.until(shown("#/job/3/log"))
        self.assertIn("[3]step   390  loss", self.texts(".log .line")[39])
        self.assertIn("its log is gone", self.texts(".log .line.bad")[0])
        self.assertTrue(self.browser.run(AT_END))

        grown = sample_web.busy()
        more = [["0", f"epoch {i} is done"] for i in range(3)]
        grown["logs"]["3"] = sample_web.log("3", more, anew=False, passed_over=7, ended=True)
        self.server.show(grown)
        self.until("document.querySelector('.logs').textContent.includes('epoch 2 is done')")
        lines = self.texts(".log .said")
        self.assertEqual(lines[-4:], ["7 lines came too fast to be shown"] +
                         [line for _, line in more])  # fmt: skip
        self.assertEqual(len(lines), 42 + 4)
        self.assertIn("The job has ended: this is all.", self.text(".logs"))
        self.assertTrue(self.browser.run(AT_END), "it stays at the end")

        self.browser.run("document.getElementById('log').scrollTop = 0")
        self.browser.settle()
        self.server.show(grown)
        self.until("document.querySelectorAll('.log .line').length === 50")
        self.assertEqual(self.browser.run("document.getElementById('log').scrollTop"), 0,
                         "who reads further up stays there")  # fmt: skip

    def test_of_a_log_one_ranks_lines_or_the_aggregators_are_chosen(self):
        self.open("#/job/3/log")
        choose = """(value) => { const select = document.querySelector('.logs select');
            select.value = value; select.onchange({target: select}); }"""
        self.browser.run(f"({choose})('rank:2')")
        self.until(shown("#/job/3/log/rank/2"))
        self.assertEqual(set(self.texts(".log .who")), {"[2]"})
        self.assertEqual(self.text(".logs .command code"), "strata logs 3 --rank 2 --follow")
        self.browser.run(f"({choose})('aggregators')")
        self.until(shown("#/job/3/log/aggregators"))
        self.assertIn("Nothing has been written yet", self.text(".logs"))
        self.assertEqual(self.text(".logs .command code"), "strata logs 3 --aggregator --follow")
        self.click("close")
        self.until(shown("#/job/3"))
        self.assertEqual(self.text(".logs .command code"), "strata logs 3 --follow")

    def test_a_link_to_a_log_that_is_none_shows_all_ranks(self):
        for place in ("#/job/3/log/", "#/job/3/log/rank/x", "#/job/03/log/nobody"):
            self.open(place)
            self.assertEqual(len(self.texts(".log .line")), 42, place)
            self.assertEqual(self.browser.run("document.querySelector('.logs select').value"), "")

    def test_the_select_says_whose_log_is_shown_also_after_going_back(self):
        self.open("#/job/3/log")
        self.browser.run("document.querySelector('.logs select').focus()")
        self.browser.run("location.hash = '#/job/3/log/rank/2'")
        self.until(shown("#/job/3/log/rank/2"))
        value = "document.querySelector('.logs select').value"
        self.assertEqual(self.browser.run(value), "rank:2")
        self.browser.run("history.back()")
        self.until(shown("#/job/3/log"))
        self.assertEqual(self.browser.run(value), "")

    def test_who_waits_has_a_link_to_its_log(self):
        self.open("#/")
        self.browser.run("""[...document.querySelectorAll('.waits a')]
            .find(a => a.textContent === 'its log').click()""")
        self.until("location.hash === '#/job/3/log/rank/3'")
        self.until("""(box => box && box.top >= 0 && box.bottom <= innerHeight)(
            document.getElementById('log')?.getBoundingClientRect())""")

    def test_a_log_that_may_not_be_seen_says_why_and_without_logs_the_page_says_how(self):
        self.open("#/job/2/log")
        self.assertIn("job 2 is mira's", self.text(".logs .reason"))
        self.open("#/job/4/log")
        self.assertIn("this is all", self.text(".logs"))
        without = sample_web.busy()
        without["cluster"]["has_logs"] = False
        self.open("#/job/3/log", without)
        self.assertIn("strata web --logs", self.text(".logs"))
        self.assertEqual(self.texts(".log"), [])
        self.open("#/", without)
        self.assertNotIn("its log", self.text(".waits"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
