"""Metrics that documents, alerts and the dashboard name are those that /metrics has."""

import glob
import json
import re
import subprocess
import unittest

SAMPLE = "cli/web/print_sample"
ALERTS = "deploy/monitoring/strata-alerts.yml"
DASHBOARD = "deploy/monitoring/grafana-dashboard.json"
DOCUMENT = "docs/metrics.md"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def named(text):
    return set(re.findall(r"\bstrata_[a-z_]+", text))


class NamesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = subprocess.run([SAMPLE], check=True, capture_output=True, text=True,
                                  timeout=20).stdout
        cls.known = {re.match(r"\w+", line).group()
                     for line in cls.text.splitlines() if not line.startswith("#")}

    def test_the_sample_has_every_family_of_the_source(self):
        source = "".join(read(path) for path in glob.glob("cli/web/*families.h"))
        families = set(re.findall(r'"(strata_\w+)"', source))
        self.assertGreater(len(families), 40)
        self.assertEqual(families, set(re.findall(r"^# TYPE (\w+)", self.text, re.M)))

    def test_the_document_has_a_row_for_every_metric_and_no_other(self):
        self.assertEqual(set(re.findall(r"^\| `(\w+)` \|", read(DOCUMENT), re.M)), self.known)

    def test_what_is_named_exists(self):
        for path in (ALERTS, "deploy/monitoring/strata-alerts-test.yml", DASHBOARD, DOCUMENT):
            names = named(read(path))
            self.assertGreater(len(names), 5, path)
            self.assertLessEqual(names, self.known, path)

    def test_every_alert_has_a_case_that_sets_it_off(self):
        cases = read("deploy/monitoring/strata-alerts-test.yml")
        firing = set(re.findall(r"alertname: (\w+)\n\s+exp_alerts:\n\s+- exp_labels", cases))
        self.assertEqual(firing, set(re.findall(r"- alert: (\w+)", read(ALERTS))))

    def test_every_panel_has_a_unit_a_description_and_a_legend(self):
        panels = [one for one in json.loads(read(DASHBOARD))["panels"] if one["type"] != "row"]
        self.assertGreater(len(panels), 20)
        self.assertEqual(panels[0]["title"], "Who is waited for")
        ids, places = set(), set()
        for panel in panels:
            with self.subTest(panel["title"]):
                self.assertTrue(panel["description"])
                self.assertTrue(panel["fieldConfig"]["defaults"]["unit"])
                self.assertTrue(panel["targets"])
                for target in panel["targets"]:
                    self.assertEqual(target["datasource"]["uid"], "${datasource}")
                    self.assertTrue(target["legendFormat"] or panel["type"] == "table")
            ids.add(panel["id"])
            place = panel["gridPos"]
            places |= {(x, y) for x in range(place["x"], place["x"] + place["w"])
                       for y in range(place["y"], place["y"] + place["h"])}
        self.assertEqual(len(ids), len(panels))
        cells = sum(one["gridPos"]["w"] * one["gridPos"]["h"] for one in panels)
        self.assertEqual(len(places), cells, "panels lie over each other")


if __name__ == "__main__":
    unittest.main(verbosity=2)
