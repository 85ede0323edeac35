"""Daemons on hosts of netlab.sh, which programs of this folder kill and start again."""

import os
import signal
import subprocess
import sys
import tempfile

from cluster import Cluster, fail
from etcd import Etcd

HERE = os.path.dirname(os.path.abspath(__file__))
NO_NETWORKS = 77  # netlab.sh's
PORT = 7070
NOBODY = "02:00:00:00:00:01"  # of no interface: what is sent there is lost


def in_lab(hosts, rate, arguments):
    """Runs this program again where it reaches `hosts` hosts, with --inside and the file of their
    names; returns its exit status. Its temporary files are gone afterwards, whatever ends it.
    """
    command = [os.path.join(HERE, "netlab.sh"), "--hosts", str(hosts), "--rate", rate, "--once",
               "--", sys.executable, os.path.abspath(sys.argv[0]), *arguments, "--inside",
               "{hosts}"]
    with tempfile.TemporaryDirectory() as scratch:
        lab = subprocess.Popen(command, env={**os.environ, "TMPDIR": scratch})
        try:
            return lab.wait()
        except KeyboardInterrupt:  # the lab has it, too, and ends what it runs
            return lab.wait()


class Daemon:
    """A daemon, with the arguments to restart it."""

    def __init__(self, name, role, host, arguments):
        self.name, self.role, self.host, self.arguments = name, role, host, arguments
        self.process = None

    @property
    def runs(self):
        return self.process is not None and self.process.poll() is None


class HostCluster(Cluster):
    """The coordinator is on the first host; servers and workers are where they are started. Another
    coordinator may stand by for it.
    """

    def __init__(self, strata, scratch, hosts_file):
        super().__init__(strata, scratch)
        with open(hosts_file, encoding="utf-8") as lines:
            fields = [line.split() for line in lines]
        self.addresses = [field[1] for field in fields]
        self.hosts = [field[2:] for field in fields]  # what is put before a command there
        self.address = f"{self.addresses[0]}:{PORT}"
        self.keys = ["--insecure"]
        self.by_name = {}
        self.etcd = None

    def log_of(self, name):
        return os.path.join(self.scratch, name + ".log")

    def add(self, name, role, host, *arguments):
        """Starts a daemon on a host, by its number."""
        self.by_name[name] = Daemon(name, role, host, arguments)
        self.start_again(name)

    def start_again(self, name):
        """Returns when it is ready."""
        self.await_ready(self.launch_again(name))

    def launch_again(self, name):
        one = self.by_name[name]
        if one.runs:
            fail(f"{name} runs already")
        with open(self.log_of(name), "a", encoding="utf-8") as log:
            one.process = self.launch(*one.arguments, host=self.hosts[one.host], log=log)
        return one.process

    def add_coordinator(self, *more):
        self.add("coordinator", "coordinator", 0, "coordinator", "--listen", self.address,
                 "--insecure", "--state", os.path.join(self.scratch, "state"), *more)

    def add_coordinators(self, *hosts):
        """One on each of these hosts, but on the last one etcd, where they keep what they know."""
        *hosts, store = hosts
        etcd = Etcd(self.scratch, self.hosts[store], self.addresses[store])
        self.etcd = etcd.__enter__()
        self.address = ",".join(f"{self.addresses[host]}:{PORT}" for host in hosts)
        self.keys = ["--insecure", "--timeout", "60"]
        for number, host in enumerate(hosts):
            name = f"coordinator{number}"
            self.add(name, "coordinator", host, "coordinator", "--listen",
                     f"{self.addresses[host]}:{PORT}", "--insecure", "--etcd", etcd.endpoint,
                     "--state", os.path.join(self.scratch, f"state{number}"))

    def __exit__(self, *what):
        for one in self.by_name.values():  # the second signal ends those with a notice at once
            if one.runs and "--notice" in one.arguments:
                one.process.send_signal(signal.SIGTERM)
        super().__exit__(*what)
        if self.etcd:
            self.etcd.__exit__(*what)

    def add_server(self, name, host, *more):
        self.add(name, "server", host, "server", "--coordinator", self.address, "--insecure",
                 "--name", name, *more)

    def add_worker(self, name, host, *more):
        self.add(name, "worker", host, "worker", "--coordinator", self.address, "--insecure",
                 "--name", name, "--gpus", "none", "--runs", self.runs, *more)

    def kill(self, name):
        one = self.by_name[name]
        one.process.send_signal(signal.SIGKILL)
        one.process.wait()

    def ip(self, host, *arguments):
        """Runs `ip` on a host."""
        done = subprocess.run([*self.hosts[host], "ip", *arguments], capture_output=True, text=True,
                              timeout=60, check=False)
        if done.returncode != 0:
            fail(f"host {host}: ip {' '.join(arguments)}: {done.stderr}")

    def part(self, host, other):
        """From now on neither of two hosts gets what the other one sends; nobody is told."""
        for one, two in ((host, other), (other, host)):
            self.ip(one, "neighbour", "replace", self.addresses[two], "lladdr", NOBODY, "dev",
                    "eth0", "nud", "permanent")

    def join(self, host, other):
        for one, two in ((host, other), (other, host)):
            self.ip(one, "neighbour", "delete", self.addresses[two], "dev", "eth0")

    def networks(self):
        """What the hosts' networks are called in /proc/PID/ns/net; ids of the processes that hold
        them.
        """
        keepers = [int(host[host.index("--target") + 1]) for host in self.hosts]
        return {os.readlink(f"/proc/{keeper}/ns/net") for keeper in keepers}, set(keepers)

    def left_over(self):
        """Ids of what runs on the hosts."""
        networks, keepers = self.networks()
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/ns/net") in networks and int(pid) not in keepers:
                    found.append(int(pid))
            except OSError:
                pass
        return found


def unprotected(status):
    """How many of a job's shards have no second copy that could take over."""
    return sum(not shard["backup"] or shard["backup_is_partial"] for shard in status["shards"])
