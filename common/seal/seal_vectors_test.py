"""Holds what common/seal derives, seals and signs against PyPI's `cryptography`, both ways.

usage: seal_vectors_test.py SEAL_VECTORS    the program that testing/seal_vectors.cc makes

The formats are written down here a second time, from the headers' words.
"""

import os
import random
import struct
import subprocess
import sys
import unittest

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

COUNT = 100
JOB = 7
LISTENER = b"tcp://10.0.0.1:7100"
SIGN, ENCRYPT = 1, 2
PROGRAM = None


def program(*arguments, text=None):
    done = subprocess.run(
        [PROGRAM, *arguments], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


def field(octets):
    return octets.hex() or "-"


def octets_of(text):
    return b"" if text == "-" else bytes.fromhex(text)


def nonce(number):
    return bytes(4) + struct.pack("<Q", number)


def hkdf(secret, salt, info):
    return HKDF(SHA256(), 32, salt or None, info).derive(secret)


def payload_line(protection, secret, salt, number, plain):
    info = b"strata payload key" + bytes([protection]) + struct.pack("<I", number >> 32)
    gcm = AESGCM(hkdf(secret, salt, info))
    if protection == SIGN:
        sealed, tag = plain, gcm.encrypt(nonce(number), b"", plain)
    else:
        both = gcm.encrypt(nonce(number), plain, b"")
        sealed, tag = both[:-16], both[-16:]
    fields = (field(one) for one in (plain, sealed, tag))
    return " ".join(["payload", str(protection), field(secret), field(salt), str(number), *fields])


def header_line(key, place, header, number, payload_tag):
    covered = header + struct.pack("<Q", number) + payload_tag
    tag = AESGCM(key).encrypt(nonce(place), b"", covered)
    encoded = struct.pack("<Q", number) + payload_tag + tag
    fields = [field(header), str(number), field(payload_tag), field(encoded)]
    return " ".join(["header", field(key), str(place), *fields])


def connection_line(job_secret, attempt):
    secret = hkdf(job_secret, b"", b"strata connection" + struct.pack("<I", attempt) + LISTENER)
    identity = f"job {JOB} attempt {attempt}".encode()
    return " ".join(
        ["connection", field(job_secret), str(attempt), field(secret), field(identity)]
    )


def again(line):
    """The line, computed anew from what it says of secrets, numbers and plain bytes."""
    kind, *rest = line.split(" ")
    if kind == "payload":
        protection, secret, salt, number, plain = rest[:5]
        plain = octets_of(plain)
        return payload_line(
            int(protection), octets_of(secret), octets_of(salt), int(number), plain
        )
    if kind == "header":
        key, place, header, number, payload_tag = rest[:5]
        return header_line(
            octets_of(key), int(place), octets_of(header), int(number), octets_of(payload_tag)
        )
    return connection_line(octets_of(rest[0]), int(rest[1]))


def random_lines(chance):
    lines = []
    for _ in range(COUNT):
        number = chance.getrandbits(32) << 32 | chance.randrange(1, 1 << 32)
        plain = os.urandom(chance.choice([0, 1, 15, 16, 17, chance.randrange(5000)]))
        protection = chance.choice([SIGN, ENCRYPT])
        lines.append(payload_line(protection, os.urandom(32), os.urandom(16), number, plain))
    key = os.urandom(32)
    for place in range(1, COUNT + 1):
        header = os.urandom(chance.randrange(200))
        number = chance.getrandbits(32) << 32 | chance.randrange(1, 1 << 32)
        lines.append(header_line(key, place, header, number, os.urandom(16)))
    lines += [connection_line(os.urandom(32), chance.getrandbits(32)) for _ in range(COUNT)]
    return lines


class SealVectors(unittest.TestCase):
    def test_what_it_seals_is_what_another_implementation_seals(self):
        status, made, _ = program("make", str(COUNT))
        self.assertEqual(status, 0)
        lines = made.splitlines()
        self.assertEqual(len(lines), 4 * COUNT)
        for line in lines:
            self.assertEqual(again(line), line)

    def test_what_another_implementation_seals_it_opens(self):
        lines = random_lines(random.Random(1))
        status, counted, error = program("check", text="\n".join(lines) + "\n")
        self.assertEqual((status, error), (0, ""))
        self.assertEqual(counted, f"{3 * COUNT}\n")

    def test_a_changed_line_is_seen(self):
        lines = random_lines(random.Random(2))
        for line in (lines[0], lines[COUNT], lines[-1]):
            last = "0" if line[-1] != "0" else "1"
            self.assertEqual(program("check", text=line[:-1] + last + "\n")[0], 1)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
