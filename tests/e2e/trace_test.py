"""`strata local --trace FILE` on real processes: what stands in the file."""

import collections
import filecmp
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, "tests/e2e/testing")
from trace_file import Trace  # noqa: E402

STRATA = os.path.abspath("cli/strata")
DEADLINE_S = 300
# In causal order; those of one clock of one chunk.
NODE = ["ready", "sum", "encode", "send", "decode"]
SHARD = ["server wait", "apply", "answer"]


def job(**changes):
    fields = {
        "name": '"traced"',
        "model": '{ zoo: "lenet5" }',
        "data": "{ synthetic { train_samples: 512 test_samples: 64 } batch_per_rank: 8 }",
        "ranks": "4",
        "ranks_per_node": "2",
        "max_steps": "8",
        "epochs": "1000",
        "chunk_elements": "8192",
    }
    fields.update(changes)
    return "\n".join(f"{name}: {value}" for name, value in fields.items())


class TraceTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.file = os.path.join(self.dir.name, "trace.json")

    def path(self, name, text):
        path = os.path.join(self.dir.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def strata(self, *args):
        return subprocess.run(
            [STRATA, *args], capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )

    def local(self, text, *args, trace=True):
        command = ["local", "--servers", "1", "--shards", "2", "--nodes", "2", "--slots", "2"]
        command += ["--runs", os.path.join(self.dir.name, "runs"), "--log-level", "error"]
        command += ["--job", self.path("job.textproto", text)]
        command += ["--trace", self.file] if trace else []
        return self.strata(*command, *args)

    def traced(self, text, *args):
        run = self.local(text, *args)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stderr, "")
        self.assertRegex(run.stdout, r"trace: \S+/trace.json \(\d+ events; open it at https://")
        return Trace(self, self.file)

    def chains(self, trace, names):
        """By node, clock and chunk: the first span of each name."""
        chains = collections.defaultdict(dict)
        for process, name, args, begin, end, _ in trace.spans:
            if name not in names or ("rank" in process):
                continue
            node = args["node"] if "node" in args else int(re.match(r"node (\d+)", process)[1])
            chains[node, args["clock"], args["chunk"]].setdefault(name, (begin, end))
        return chains

    def check_phases(self, trace, clocks, chunks, answered_by_all=True):
        chains = self.chains(trace, NODE + SHARD)
        want = {(n, t, c) for n in (0, 1) for t in clocks for c in range(chunks)}
        self.assertEqual(set(chains), want)
        for key, spans in chains.items():
            self.assertLessEqual(set(NODE + ["server wait", "answer"]), set(spans), key)
            way = [spans[name] for name in ("ready", "sum", "encode", "send")]
            way += [spans["server wait"], spans["answer"], spans["decode"]]
            for before, after in zip(way, way[1:]):
                self.assertLessEqual(before[0], after[0], key)
            for name, then in (("ready", "sum"), ("sum", "encode"), ("encode", "send")):
                self.assertLessEqual(spans[name][1], spans[then][0], key)
        return chains

    def test_sync(self):
        trace = self.traced(job(trace="{ first_step: 2 steps: 3 }"))
        self.assertEqual(
            list(trace.names.values()),
            ["node 0 aggregator", "node 0 rank 0", "node 0 rank 1", "node 1 aggregator",
             "node 1 rank 2", "node 1 rank 3", "server s0 shard 0", "server s0 shard 1"],
        )
        self.assertEqual(trace.json["otherData"]["left_out"], "0")
        chunks = self.chunks()
        self.assertGreater(chunks, 4)
        chains = self.check_phases(trace, range(2, 5), chunks)
        for t in range(2, 5):
            for c in range(chunks):
                # Applied once, when the later push is there; then both are answered.
                of_it = lambda span: (span[2]["clock"], span[2]["chunk"]) == (t, c)
                applied = list(filter(of_it, trace.of("apply")))
                self.assertEqual(len(applied), 1)
                waits = [chains[n, t, c]["server wait"] for n in (0, 1)]
                self.assertEqual(max(end for _, end in waits), applied[0][3])
                self.assertEqual(min(end for _, end in waits), applied[0][3])
                for n in (0, 1):
                    self.assertLessEqual(applied[0][4], chains[n, t, c]["answer"][0])
        for rank in range(4):
            process = f"node {rank // 2} rank {rank}"
            for name in ("forward", "backward"):
                steps = [span[2]["clock"] for span in trace.of(name, process)]
                self.assertEqual(steps, [2, 3, 4], process)
        sizes = {s[2]["chunk"]: s[2]["bytes"] for s in trace.of("sum")}
        self.assertEqual(sum(sizes.values()), 4 * self.elements())
        self.assertEqual(sizes[0], 4 * 8192)

    def elements(self):
        return 61706  # of LeNet-5

    def chunks(self):
        return -(-self.elements() // 8192)

    def test_lazy_and_async_with_codecs(self):
        trace = self.traced(job(trace="{ steps: 2 }", push="{ codec: INT8 }"), "--mode", "lazy")
        self.check_phases(trace, range(2), self.chunks())
        trace = self.traced(job(trace="{ steps: 2 }", pull="{ codec: FP16 }"), "--mode", "async")
        self.check_phases(trace, range(2), self.chunks())
        # Each push is applied by itself, and each answer encoded.
        self.assertEqual(len(trace.of("apply")), 2 * 2 * self.chunks())
        self.assertEqual(len(trace.of("encode", "server")), 2 * 2 * self.chunks())

    def test_ring(self):
        trace = self.traced(job(exchange="RING", trace="{ steps: 2 }"))
        chains = self.chains(trace, NODE + ["apply"])
        self.assertEqual(
            set(chains),
            {(n, t, c) for n in (0, 1) for t in (0, 1) for c in range(self.chunks())},
        )
        for key, spans in chains.items():
            self.assertEqual(set(spans), set(NODE + ["apply"]), key)
            way = [spans[name] for name in ("ready", "sum", "encode")]
            for before, after in zip(way, way[1:]):
                self.assertLessEqual(before[1], after[0], key)
            self.assertLessEqual(spans["sum"][1], spans["send"][0], key)
            self.assertLessEqual(spans["apply"][1], spans["decode"][0], key)
        self.assertFalse([name for name in trace.names.values() if name.startswith("server")])

    def test_of_a_job_that_does_not_say_so_the_first_steps_are_traced(self):
        trace = self.traced(job())
        self.assertEqual({s[2]["clock"] for s in trace.spans}, set(range(8)))

    def test_without_an_exchange_ranks_tell_of_their_steps(self):
        trace = self.traced(job(exchange="NONE", ranks="1", ranks_per_node="1"))
        self.assertEqual(list(trace.names.values()), ["node 0 rank 0"])
        self.assertEqual(len(trace.of("forward")), 8)

    def test_steps_that_are_never_made_give_an_empty_trace_and_a_word(self):
        run = self.local(job(trace="{ first_step: 100 steps: 3 }"))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("trace.json is empty: no rank made a step from step 100 on", run.stderr)
        self.assertEqual(Trace(self, self.file).spans, [])

    def test_of_jobs_on_one_cluster_only_the_traced_one_is_recorded(self):
        command = ["local", "--servers", "1", "--shards", "2", "--nodes", "2", "--slots", "4"]
        command += ["--runs", os.path.join(self.dir.name, "runs"), "--log-level", "error"]
        cluster = subprocess.Popen(
            [STRATA, *command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(cluster.stdout.close)
        self.addCleanup(cluster.wait, DEADLINE_S)
        self.addCleanup(cluster.terminate)
        ready = re.search(r"coordinator=(\S+) .*keys=(\S+)", cluster.stdout.readline())
        at = ["--coordinator", ready[1], "--keys", ready[2]]
        plain = self.path("plain.textproto", job(name='"plain"', max_steps="300"))
        self.assertEqual(self.strata("submit", plain, *at).returncode, 0)
        traced = self.path("job.textproto", job(trace="{ steps: 2 }"))
        run = self.strata("submit", traced, *at, "--follow", "--trace", self.file)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.check_phases(Trace(self, self.file), range(2), self.chunks())
        # It can be had again; of the other job there is none.
        again = self.file + ".again"
        self.assertEqual(self.strata("trace", "traced", again, *at).returncode, 0)
        self.assertTrue(filecmp.cmp(again, self.file, shallow=False))
        run = self.strata("trace", "plain", again, *at)
        self.assertEqual(run.returncode, 1)
        self.assertEqual(
            run.stderr,
            "strata: error: job 1 (plain) has no trace: it was submitted without --trace\n",
        )
        nodes = json.loads(self.strata("nodes", *at, "--json").stdout)
        held = [r for r in nodes["coordinator"]["resources"] if r["name"] == "trace bytes"]
        self.assertEqual(held[0]["limit"], 32 << 20)
        self.assertGreater(held[0]["used"], 1000)

    def test_a_file_that_cannot_be_written_is_found_before_anything_starts(self):
        missing = os.path.join(self.dir.name, "missing", "t.json")
        run = self.local(job(), "--trace", missing, trace=False)
        self.assertEqual(run.returncode, 2)
        self.assertEqual(
            run.stderr, f"strata: error: --trace {missing}: No such file or directory\n"
        )
        self.assertEqual(run.stdout, "")
        self.assertFalse(os.path.exists(os.path.join(self.dir.name, "runs")))

    def test_wrong_options_are_one_line(self):
        path = self.path("job.textproto", job())
        run = self.strata("submit", path, "--trace", self.file)
        self.assertEqual(run.returncode, 2)
        self.assertRegex(run.stderr, r"^strata: error: --trace requires --follow[^\n]*\n$")
        run = self.strata("local", "--trace", self.file)
        self.assertEqual(run.returncode, 2)
        self.assertEqual(run.stderr, "strata: error: --trace needs --job\n")
        self.assertFalse(os.path.exists(self.file))


if __name__ == "__main__":
    unittest.main()
