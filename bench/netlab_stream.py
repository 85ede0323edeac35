"""One TCP stream between two hosts; host 0 prints how many seconds the bytes took.

usage: netlab_stream.py NUMBER ADDRESS_OF_0 up|down BYTES     on each of two hosts; NUMBER 0 serves
"""

import socket
import sys
import time

PORT = 7300


def receive(connection, count):
    while count > 0:
        taken = len(connection.recv(1 << 20))
        if taken == 0:
            sys.exit("netlab_stream: the stream ended early")
        count -= taken


def serve(address, way, count):
    with socket.create_server((address, PORT)) as listening:
        listening.settimeout(60)
        connection, _ = listening.accept()
    connection.settimeout(120)
    start = time.monotonic()
    if way == "up":
        receive(connection, count)
    else:
        connection.sendall(bytes(count))
        receive(connection, 1)  # all of it has arrived
    print(f"{time.monotonic() - start:.3f}", flush=True)


def connect(address, way, count):
    deadline = time.monotonic() + 60
    while True:
        try:
            connection = socket.create_connection((address, PORT), timeout=120)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    if way == "up":
        connection.sendall(bytes(count))
        connection.recv(1)  # until the server has had it all
    else:
        receive(connection, count)
        connection.sendall(b"1")


def main():
    number, address, way, count = sys.argv[1:]
    (serve if number == "0" else connect)(address, way, int(count))


if __name__ == "__main__":
    main()
