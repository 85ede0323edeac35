"""Every contender does the work at a tiny size, with the right values; Gate sees wrong ones; and
what says that it encrypts does."""

import os
import socket
import struct
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import contenders  # noqa: E402  (beside this file)
import side_by_side  # noqa: E402

FOLDER = "."


def work(**changes):
    values = {"nodes": 2, "servers": 1, "size": 3000004, "steps": 3, "warmup": 1, **changes}
    return contenders.Work(**values)


# Rank 0's gradient of the first step, which plain text shows on the wire.
PLAIN = struct.pack("<32f", *((3 * i) & 63 for i in range(32)))


class Relay:
    """Stands before a server and keeps what is said through it in so many connections."""

    def __init__(self, connections):
        self.connections = connections
        self.heard = []  # of each connection and direction
        self.sockets = []

    def before(self, address):
        self.sockets.append(socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=self.serve, args=(self.sockets[0], address), daemon=True).start()
        return f"127.0.0.1:{self.sockets[0].getsockname()[1]}"

    def serve(self, listening, address):
        for _ in range(self.connections):
            one, other = listening.accept()[0], self.connect(address)
            self.sockets += [one, other]
            for ends in ((one, other), (other, one)):
                self.heard.append(bytearray())
                threading.Thread(target=self.carry, args=(*ends, self.heard[-1]),
                                 daemon=True).start()

    @staticmethod
    def connect(address):
        host, port = address.split(":")
        while True:
            try:
                return socket.create_connection((host, int(port)))
            except ConnectionRefusedError:  # the server has not begun
                time.sleep(0.01)

    @staticmethod
    def carry(source, sink, heard):
        try:
            while data := source.recv(1 << 16):
                heard += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # an end has gone

    def close(self):
        for one in self.sockets:
            one.close()


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

    def test_push_pull_over_curve(self):
        self.run_optional(lambda: contenders.push_pull(work(nodes=3, servers=2), FOLDER,
                                                       curve=True))

    def test_a_relay_reads_the_values_of_push_pull_but_not_over_curve(self):
        for curve in (False, True):
            relay = Relay(connections=2)
            self.addCleanup(relay.close)
            self.run_optional(lambda: contenders.push_pull(work(), FOLDER, curve=curve,
                                                           way_to=relay.before))
            self.assertGreater(sum(len(one) for one in relay.heard), work().size * 4)
            self.assertEqual(any(PLAIN in one for one in relay.heard), not curve)

    def test_zmq_mover(self):
        self.check(contenders.zmq_mover(work(), FOLDER))

    def test_gloo(self):
        self.run_optional(lambda: contenders.gloo(work(nodes=3), FOLDER))

    def test_torch_gloo(self):
        self.run_optional(lambda: contenders.torch_gloo(work(nodes=3), FOLDER))

    def test_torch_gloo_over_tls(self):
        self.run_optional(lambda: contenders.torch_gloo(work(), FOLDER, tls=True))

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



class Written(unittest.TestCase):
    """A scenario's table replaces its own alone."""

    OTHERS = "# Results\n\n<!-- bench/run.sh small -->\n45 ms\n<!-- end of small -->\n\nBy hand.\n"
    OWN = "\n<!-- bench/run.sh node -->\n{}<!-- end of node -->\n"

    def written(self, content, text="7 ms\n"):
        with tempfile.NamedTemporaryFile("w+", suffix=".md") as file:
            file.write(content)
            file.flush()
            try:
                side_by_side.write(file.name, "node", text)
            finally:
                file.seek(0)
                self.content = file.read()
        return self.content

    def test_the_others_stay_as_they_are(self):
        first = self.written(self.OTHERS)
        self.assertEqual(first, self.OTHERS + self.OWN.format("7 ms\n"))
        more = first + "\nThe end.\n"
        self.assertEqual(self.written(more, "8 ms\n"), more.replace("7 ms", "8 ms"))

    def test_marks_that_do_not_belong_together_lose_nothing(self):
        for content in (self.OWN.split("{}")[0] + self.OTHERS,
                        self.OWN.split("{}")[0] + self.OTHERS + self.OWN.split("{}")[1]):
            with self.assertRaisesRegex(SystemExit, "nothing is written"):
                self.written(content)
            self.assertEqual(self.content, content)


class WhatIsMissing(unittest.TestCase):
    """It ends in one line that says what to do."""

    def refusal(self, function, *args, **named):
        with self.assertRaises(SystemExit) as refused:
            function(*args, **named)
        self.assertNotIn("\n", str(refused.exception))
        return str(refused.exception)

    def test_iperf3(self):
        scenario = side_by_side.SCENARIOS["small"]
        with unittest.mock.patch.object(side_by_side.shutil, "which", return_value=None):
            said = self.refusal(side_by_side.check_tools, scenario)
            self.assertIn("iperf3 is not installed", said)
        facts = {"bytes_per_s": None, "bandwidth_source": "not known: iperf3: no report"}
        self.assertEqual(self.refusal(side_by_side.speed_of_link, facts),
                         "side_by_side: the link's speed is not known: iperf3: no report")
        self.assertEqual(side_by_side.speed_of_link({"bytes_per_s": 5.0}), 5.0)

    def test_a_library_that_was_installed_after_bazel_had_looked(self):
        self.assertEqual(sorted(side_by_side.libraries()), ["gloo", "mpi"])
        with tempfile.NamedTemporaryFile("w", suffix=".bzl") as defs:
            defs.write('NEEDS_GLOO = ["@platforms//:incompatible"]\nNEEDS_MPI = []\n')
            defs.flush()
            said = self.refusal(side_by_side.check_libraries, defs.name, lambda path: True)
            late = "gloo was installed after Bazel had looked for it: run bazel shutdown"
            self.assertIn(late, said)
            side_by_side.check_libraries(defs.name, lambda path: False)
        side_by_side.check_libraries("/nowhere/defs.bzl", lambda path: True)


if __name__ == "__main__":
    unittest.main()
