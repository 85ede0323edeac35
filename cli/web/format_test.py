"""Programs that are not ours read what /metrics says as we mean it."""

import re
import shutil
import subprocess
import unittest

SAMPLE = "cli/web/print_sample"
FOLDER = "deploy/monitoring"


def sample():
    return subprocess.run([SAMPLE], check=True, capture_output=True, text=True, timeout=20).stdout


def as_0_0_4(text):
    """The text in the format before OpenMetrics, which is all that `promtool check` reads."""
    counters = set(re.findall(r"^# TYPE (\S+) counter$", text, re.M))
    lines = []
    for line in text.splitlines():
        head = re.match(r"# (TYPE|HELP) (\S+) (.*)", line)
        if head and head[2] in counters:
            line = f"# {head[1]} {head[2]}_total {head[3]}"
        if not line.startswith(("# UNIT", "# EOF")):
            lines.append(line + "\n")
    return "".join(lines)


class OpenMetricsTest(unittest.TestCase):
    def test_the_reference_parser_finds_every_sample(self):
        try:
            from prometheus_client.openmetrics import parser
        except ImportError:
            self.skipTest("python3-prometheus-client is not installed "
                          "(deploy/install_packages.sh --tests)")
        text = sample()
        families = list(parser.text_string_to_metric_families(text))
        samples = [one for family in families for one in family.samples]
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual(len(samples), len(lines))
        self.assertEqual([family.name for family in families],
                         re.findall(r"^# TYPE (\S+)", text, re.M))
        kinds = {family.type for family in families}
        self.assertEqual(kinds, {"counter", "gauge"})
        for family in families:
            self.assertTrue(family.documentation, family.name)
            if family.unit:
                self.assertTrue(family.name.endswith("_" + family.unit), family.name)


class PromtoolTest(unittest.TestCase):
    def setUp(self):
        if shutil.which("promtool") is None:
            self.skipTest("prometheus is not installed (deploy/install_packages.sh --tests)")

    def promtool(self, *args, cwd=None, text=None):
        done = subprocess.run(["promtool", *args], input=text, cwd=cwd, capture_output=True,
                              text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_metrics_have_nothing_that_promtool_would_mend(self):
        self.assertEqual(self.promtool("check", "metrics", text=as_0_0_4(sample())), "")

    def test_alerts_are_rules(self):
        self.assertIn("SUCCESS: 9 rules", self.promtool("check", "rules", "strata-alerts.yml",
                                                        cwd=FOLDER))

    def test_alerts_fire_when_they_should_and_only_then(self):
        self.assertIn("SUCCESS", self.promtool("test", "rules", "strata-alerts-test.yml",
                                               cwd=FOLDER))


if __name__ == "__main__":
    unittest.main(verbosity=2)
