"""Every contender does the work at a tiny size, with the right values; and Gate sees wrong ones."""

import os
import socket
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import contenders  # noqa: E402  (beside this file)

FOLDER = "."


def work(**changes):
    values = {"nodes": 2, "servers": 1, "size": 3000004, "steps": 3, "warmup": 1, **changes}
    return contenders.Work(**values)


class ContendersTest(unittest.TestCase):
    def check(self, run):
        self.assertEqual(len(run.steps_ms), 3)
        self.assertTrue(run.verified)

    def test_strata(self):
        self.check(contenders.strata(work(), FOLDER))

    def test_push_pull(self):
        self.check(contenders.push_pull(work(), FOLDER))

    def test_push_pull_with_more_nodes_and_servers(self):
        self.check(contenders.push_pull(work(nodes=3, servers=2), FOLDER, pipelined=True))

    def test_zmq_mover(self):
        self.check(contenders.zmq_mover(work(), FOLDER))

    def test_gloo(self):
        self.run_optional(lambda: contenders.gloo(work(nodes=3), FOLDER))

    def test_mpi_in_shared_memory(self):
        self.run_optional(lambda: contenders.mpi(work(), FOLDER, "vader"))

    def test_mpi_over_tcp_nonblocking(self):
        self.run_optional(lambda: contenders.mpi(work(), FOLDER, "tcp", nonblocking=True))

    def run_optional(self, contender):
        try:
            self.check(contender())
        except contenders.Skipped as reason:
            self.skipTest(str(reason))

    def test_an_exchange_that_strata_has_not_is_skipped_by_name(self):
        with self.assertRaisesRegex(contenders.Skipped, "PIGEON"):
            contenders.strata(work(), FOLDER, ["--exchange", "pigeon"])

    def test_wrong_values_are_seen(self):
        gate = contenders.Gate(1)
        with socket.create_connection(("127.0.0.1", gate.port)) as line:
            for step_ms, wrong in ((-1, 0), (2, 1), (3, 0)):
                line.sendall(contenders.Gate.ARRIVAL.pack(step_ms, wrong, 0))
                self.assertEqual(line.recv(1), b"1")
        gate.thread.join(timeout=60)
        gate.close()
        self.assertEqual(gate.steps_ms, [2, 3])
        self.assertFalse(gate.right)

    def test_a_process_that_fails_is_an_error_with_its_words(self):
        with self.assertRaisesRegex(RuntimeError, "who: exit status 3: these words"):
            contenders.finish([contenders.start(["sh", "-c", "echo these words >&2; exit 3"])],
                              "who")


if __name__ == "__main__":
    unittest.main()
