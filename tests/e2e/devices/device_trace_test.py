"""`strata local --trace FILE` of jobs whose aggregators, or ranks by NCCL, work on devices."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, "tests/e2e/testing")
from trace_file import Trace  # noqa: E402

STRATA = os.path.abspath("cli/strata")
PROGRAM = os.path.abspath("tests/e2e/testing/device_rank")
# Each copy and kernel takes 5 ms: one chunk's way to the host 10 ms, and one step's, of 20 chunks,
# 200 ms, in which answers come.
DEVICES = os.path.abspath("kernels/cuda/libstrata_fake_device.so") + ",devices=2,delay_us=5000"
DEADLINE_S = 300
CHUNKS = 20
TRACED = range(1, 4)


class DeviceTraceTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def traced(self, gpus, ranks_per_gpu, *settings):
        job = os.path.join(self.dir.name, "job.textproto")
        with open(job, "w", encoding="utf-8") as file:
            file.write(
                f'name: "traced" program {{ path: "{PROGRAM}" args: "copied" args: "5" args: "0" }}'
                "device: GPU ranks: 2 chunk_elements: 1024"
                f" trace {{ first_step: {TRACED[0]} steps: {len(TRACED)} }}"
            )
        file = os.path.join(self.dir.name, "trace.json")
        command = [STRATA, "local", "--slots", "2", "--device-plugin", DEVICES, "--gpus", gpus]
        command += ["--ranks-per-gpu", str(ranks_per_gpu), "--job", job, "--trace", file]
        command += ["--runs", self.dir.name, "--set", "run_dir=run"]
        command += ["--log-level", "error", *(f"--set={setting}" for setting in settings)]
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        self.assertEqual(run.returncode, 0, run.stderr)
        trace = Trace(self, file)
        self.assertEqual(trace.json["otherData"]["left_out"], "0")
        return trace

    def rows(self, trace):
        return {s.row for s in trace.spans if s.process == "node 0 aggregator"}

    def check_order(self, trace, phases, adders=1):
        """Each chunk of each traced step has each of these spans, after one another. `phases`: name
        and row, in which GPU {} is the one that adds up the chunk: they take turns."""
        ways = {(step, chunk): [] for step in TRACED for chunk in range(CHUNKS)}
        for name, row in phases:
            spans = [
                s for s in trace.of(name, "node 0 aggregator")
                if s.row == row.format(s.args["chunk"] % adders)
            ]
            self.assertEqual(sorted(s.of for s in spans), sorted(ways), (name, row))
            for span in spans:
                ways[span.of].append(span)
        for key, way in ways.items():
            for before, after in zip(way, way[1:]):
                self.assertLessEqual(before.end, after.begin, (key, before.name, after.name))

    def check_sums_of_ranks(self, trace):
        """Each rank, one on each of two devices, adds up each chunk of each traced step with the
        other, after its backward pass has begun."""
        chunks = [(step, chunk) for step in TRACED for chunk in range(CHUNKS)]
        ranks = {"node 0 rank 0", "node 0 rank 1"}
        self.assertEqual({s.process for s in trace.of("reduce")}, ranks)
        for rank in range(2):
            process = f"node 0 rank {rank}"
            self.assertEqual(
                {s.row for s in trace.spans if s.process == process},
                {"steps", f"GPU {rank}: NCCL"},
            )
            sums = trace.of("reduce", process)
            self.assertEqual({s.row for s in sums}, {f"GPU {rank}: NCCL"})
            self.assertEqual(sorted(s.of for s in sums), chunks)
            begins = {s.args["clock"]: s.begin for s in trace.of("backward", process)}
            for span in sums:
                self.assertGreaterEqual(span.begin, begins[span.args["clock"]], span)
            self.assertGreater(sum(s.end - s.begin for s in sums), 0)

    def check_overlap(self, trace, to_device):
        """While chunks are added and copied to the host, others have gone and come back."""
        to_host = [s for name in ("sum", "to host") for s in trace.of(name)]
        together = [
            (down, up)
            for down in to_host
            for up in trace.of("to device")
            if up.row == to_device and down.args["clock"] == up.args["clock"]
            and max(down.begin, up.begin) < min(down.end, up.end)
        ]
        self.assertTrue(together)
        for down, up in together:
            self.assertNotEqual(down.of, up.of)

    def test_two_ranks_on_one_device(self):
        trace = self.traced("0", 2)
        self.assertEqual(
            self.rows(trace),
            {"exchange", "GPU 0: sums", "GPU 0: to host", "GPU 0: to device"},
        )
        self.check_order(trace, [
            ("sum", "GPU 0: sums"), ("to host", "GPU 0: to host"), ("ready", "exchange"),
            ("send", "exchange"), ("to device", "GPU 0: to device"),
        ])
        self.check_overlap(trace, "GPU 0: to device")
        # The host adds nothing.
        self.assertEqual({s.row for s in trace.of("sum")}, {"GPU 0: sums"})
        for name in ("sum", "to host", "to device"):
            self.assertGreater(sum(s.end - s.begin for s in trace.of(name)), 0, name)

    def test_a_rank_on_each_of_two_devices_with_codecs(self):
        trace = self.traced("0,1", 1, "push.codec=INT8", "pull.codec=FP16")
        rows = ("sums", "to host", "to device", "decoding")
        self.assertEqual(
            self.rows(trace), {"exchange"} | {f"GPU {gpu}: {row}" for gpu in (0, 1) for row in rows}
        )
        for gpu in (0, 1):
            self.check_order(trace, [
                ("sum", "GPU {}: sums"), ("encode", "GPU {}: sums"), ("to host", "GPU {}: to host"),
                ("ready", "exchange"), ("send", "exchange"),
                ("to device", f"GPU {gpu}: to device"), ("decode", f"GPU {gpu}: decoding"),
            ], adders=2)
            self.check_overlap(trace, f"GPU {gpu}: to device")
        encoded = {s.row for s in trace.of("encode", "node")}
        self.assertEqual(encoded, {"GPU 0: sums", "GPU 1: sums"})

    def test_ranks_that_add_up_a_nodes_gradients_by_nccl(self):
        trace = self.traced("0,1", 1, "node_sum=NCCL")
        self.check_sums_of_ranks(trace)
        self.assertEqual(
            self.rows(trace),
            {"exchange"} | {f"GPU {gpu}: to {way}" for gpu in (0, 1) for way in ("host", "device")},
        )

    def test_ranks_that_all_reduce_by_nccl(self):
        trace = self.traced("0,1", 1, "exchange=NCCL")
        self.check_sums_of_ranks(trace)
        self.assertEqual(self.rows(trace), set())


if __name__ == "__main__":
    unittest.main()
