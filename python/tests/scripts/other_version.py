"""Rank 1's library speaks another protocol version to its node's aggregator: what stands between
the two changes this one number of the library's first message.

usage: other_version.py VERSION
"""

import os
import re
import socket
import sys
import threading

import numpy as np

import strata

OTHER = int(sys.argv[1])


def varint_end(data, at):
    while data[at] & 0x80:
        at += 1
    return at + 1


def with_other_version(message):
    """Returns the rank's first message, its length first: RankMessage.attach.protocol_version is
    its first field."""
    at = varint_end(message, 0)
    assert message[at] == 0x0A, message  # attach
    at = varint_end(message, at + 1)
    assert message[at] == 0x08 and message[at + 1] < 0x80, message  # protocol_version
    return message[: at + 1] + bytes([OTHER]) + message[at + 2 :]


def forward(source, target):
    """Until either end is gone. It says nothing then: the log's last line is the library's."""
    try:
        while True:
            data, descriptors, _, _ = socket.recv_fds(source, 65536, 2)
            if not data:
                return
            socket.send_fds(target, [data], descriptors)
    except OSError:
        return


def stand_between(name):
    """Listens where the rank takes the aggregator to be; returns the name of that socket."""
    own = f"{name}-between"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{own}")
    listener.listen()

    def serve():
        rank, _ = listener.accept()
        aggregator = socket.socket(socket.AF_UNIX)
        aggregator.connect(f"\0{name}")
        aggregator.sendall(with_other_version(rank.recv(65536)))
        threading.Thread(target=forward, args=(rank, aggregator), daemon=True).start()
        forward(aggregator, rank)
        rank.close()

    threading.Thread(target=serve, daemon=True).start()
    return own


if os.environ["RANK"] == "1":
    with open(os.environ["STRATA_LAUNCH"]) as file:
        launch = file.read()
    name = re.search(r'^aggregator_socket: "(.*)"$', launch, re.MULTILINE).group(1)
    with open("launch.textproto", "w") as file:
        file.write(launch.replace(f'"{name}"', f'"{stand_between(name)}"'))
    os.environ["STRATA_LAUNCH"] = "launch.textproto"

session = strata.Session({"w": np.zeros(3, "f4")}, strata.SGD(lr=0.1))
session.step({"w": [1, 1, 1]})
session.close()  # while this interpreter still runs what stands between
print("came to the end")
