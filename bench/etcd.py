"""An etcd of one member for the programs of this folder."""

import os
import subprocess
import time

from cluster import fail, free_port

ETCD = "/usr/bin/etcd"
LOOK_S = 0.1
LIMIT_S = 120


class Etcd:
    """Ends where the context does. `host`: what is put before a command so that it runs there, with
    the host's address; without it etcd runs on this machine.
    """

    def __init__(self, folder, host=(), address="127.0.0.1"):
        if not os.path.exists(ETCD):
            fail(f"{ETCD} is not installed: deploy/install_packages.sh --tests installs it")
        ports = (2379, 2380) if host else (free_port(), free_port())
        self.endpoint = f"{address}:{ports[0]}"
        self.host = host
        client, peer = f"http://{self.endpoint}", f"http://{address}:{ports[1]}"
        with open(os.path.join(folder, "etcd.log"), "wb") as log:
            self.process = subprocess.Popen(
                [*host, ETCD, "--name=one", f"--data-dir={folder}/etcd",
                 f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
                 f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
                 f"--initial-cluster=one={peer}"], stdout=log, stderr=log)

    def __enter__(self):
        deadline = time.monotonic() + LIMIT_S
        host, port = self.endpoint.split(":")
        there = [*self.host, "bash", "-c", f"exec 3<>/dev/tcp/{host}/{port}"]
        while subprocess.run(there, capture_output=True, timeout=60, check=False).returncode != 0:
            if time.monotonic() > deadline or self.process.poll() is not None:
                fail("etcd does not begin to answer")
            time.sleep(LOOK_S)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
