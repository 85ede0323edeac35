"""Seeds of what peers send, for make_corpus.py."""

import json
import struct


def host_messages(write, kept):
    """What follows 'l' is a line of `strata host`, what follows 'k' the keys of a daemon."""
    start = {"kind": "start", "title": "worker w1", "args": ["worker", "--name", "w1"]}
    lines = {
        "start": json.dumps({**start, "keys": "-----BEGIN PRIVATE KEY-----\n"}).encode(),
        "signal": b'{"kind":"signal","title":"worker w1","signal":15}',
        "ended": b'{"kind":"ended","title":"server s1","text":"caf\xc3\xa9 \\u0000\\n"}',
        "alive": b'{"kind":"alive"}',
        "large_signal": b'{"kind":"signal","signal":18446744073709551615}',
        "no_text": b'{"kind":"start","keys":{"a":[1,2]},"args":["a",1]}',
        "not_utf8": b'{"kind":"ended","text":"\xff"}',
        "deep": b'{"kind":' + b"[" * 500,
        "no_json": b"Welcome to n1",
    }
    for name, line in lines.items():
        write("host_message_fuzz", name, b"l" + line)
    keys = {name: kept("keys_fuzz." + name)[1:] for name in ("key_file", "authority", "request")}
    for name, text in {**keys, "key_file_cut_off": keys["key_file"][:-40]}.items():
        write("host_message_fuzz", "keys_" + name, b"k" + text)
    write("host_message_fuzz", "keys_of_bytes", b"k" + bytes(range(256)))


def etcd_values(write):
    """See etcd_value_fuzz.cc."""
    hash_of_nothing = b"\x29" + (0x2D06800538D394C2).to_bytes(8, "little")
    heads = {
        "nothing": hash_of_nothing,
        "other_hash": b"\x0a\x03abc\x20\x03" + hash_of_nothing,
        "too_short": b"\x0a\x03abc\x20\x04" + hash_of_nothing,
        "in_parts": b"\x12\x03set\x18\x02\x20\x08" + hash_of_nothing,
        "cut_off": b"\x0a\x7fabc",
    }
    for name, head in heads.items():
        write("etcd_value_fuzz", f"head_{name}", b"h" + bytes([len(head)]) + head + b"01234567")
    one = b"\x0a\x08" + bytes(range(8)) + b"\x12\x01\x05"
    blocks = {"one": one, "two": one + one, "none": b"", "uneven": one + b"\x12\x01\x06",
              "cut_off": one[:-1], "too_many": one * 257}
    for name, block in blocks.items():
        write("etcd_value_fuzz", f"block_{name}", b"b" + block)
    for name, roots in {"none": b"none", "one": b"a" * 64, "two": b"b" * 64 + b"," + b"a" * 64,
                        "short": b"a" * 63, "blank": b""}.items():
        write("etcd_value_fuzz", f"roots_{name}", b"r" + roots)
    write("etcd_value_fuzz", "written", b"w" + bytes(range(256)))


def seals(write, kept):
    """See seal_fuzz.cc. Handshakes hold random numbers, so corpus/ has a recorded one."""

    def seal(number, tag):
        return struct.pack("<Q", number) + bytes.fromhex(tag) + bytes(16)

    def changes(*each):
        return b"m" + b"".join(struct.pack("<BHB", *change) for change in each)

    signed, nothing = "0614c52053c2a1ed6026804b2a05e24c", "96deb6f85bbd39c6625d39e977b0e95e"
    encrypted = bytes.fromhex(
        "7b4f2a547cb4626012d692c31ab2e971ceb68bb729d53181da97ec8bcd25b022f17eb316"
        "335c22eafc1566306e89417728d60131b7d8d8dadd7055cb29941a3320b09a344ebde4c3"
        "9415685ad6e62b246dc24244602a82e288b4cfc4054b2a5175ba9f8e")
    seeds = {
        "seal": b"s" + seal(1, signed),
        "seal_without_number": b"s" + seal(0, signed),
        "seal_without_index": b"s" + seal(1 << 32, signed),
        "no_payload": b"s" + bytes(40),
        "signed": b"p" + seal(1, signed) + b"p" * 100,
        "header": b"h" + seal(1, signed) + b"h" * 128,
        "encrypted": b"e" + seal(1, nothing) + encrypted,
        "empty_encrypted": b"e" + seal(1, nothing),
        "hello_cut_off": b"l\x20" + kept("seal_fuzz.hello")[2:102],
        "http": b"l\3GET / HTTP/1.1\r\n\r\n",
        "alert": b"c\2" + bytes.fromhex("15030300020228"),
        "unchanged": changes(),
        "ignored": changes((0, 2, 1), (1, 2, 2)),
        "changed_hello": changes((0, 32, 1)),
        "changed_answer": changes((1, 160, 128), (1, 2, 1)),
        "changed_last": changes((2, 16, 4)),
    }
    for name, content in seeds.items():
        write("seal_fuzz", name, content)


def sealed_endpoints(write):
    """Who the peers are, then commands: see sealed_endpoint_fuzz.cc."""
    poll, flight, weights, connect = bytes([7, 1]), bytes([1, 0]), bytes([4]), bytes([6])

    def frame(op, how, payload=b"", seal=b""):
        return bytes([0, op - 1, how, len(payload) // 4]) + payload + seal

    hello = b"h" * 32
    strangers = {
        "hello": frame(1, 0, hello) + poll + weights + poll,
        "hello_sealed": frame(1, 2, hello, b"\1" * 40) + poll + weights,
        "other_job": frame(1, 1, hello) + frame(5, 1, hello) + poll,
        "other_job_sealed": frame(5, 3, hello, b"\1" * 40) + poll,
        "handshake": frame(20, 0, hello) + poll + frame(1, 2, hello, b"\1" * 40) + poll,
        "wrong_secret": (flight + poll) * 3 + frame(1, 0, hello) + poll + weights,
        "wrong_flight": bytes([1, 9]) + poll + flight + poll,
        "unproven": flight + frame(1, 2, hello, b"\1" * 40) + poll + weights + poll,
        "connected": connect + weights + poll + (flight + poll) * 2 + weights + poll,
        "connected_plain": connect + weights + frame(2, 0) + poll + weights,
        "over": flight + poll + bytes([2]) + poll + frame(1, 0, hello) + bytes([3]) + poll,
        "closed": flight + poll + bytes([5, 0]) + flight + bytes([5, 1]) + poll,
    }
    for name, commands in strangers.items():
        write("sealed_endpoint_fuzz", f"stranger_{name}", b"s" + commands)
        write("sealed_endpoint_fuzz", f"stranger_{name}_none", b"n" + commands)
    settle, again, take = bytes([4]), bytes([5, 0]), bytes([6, 0, 3])

    def say(size, side=0):
        return bytes([10 * side, size, 4])

    def change(what, place, by, side=0):
        return bytes([10 * side + 9, what, place, by])

    both = settle + say(8) + say(0) + say(17) + say(8, 1) + settle
    peers = {
        "both_ways": both + both,
        "waiting": say(8) * 3 + settle,
        "by_reference": settle + bytes([2, 0]) + say(17) + say(17) + settle,
        "full": settle + bytes([1, 0]) + say(8) + bytes([3, 1, 1]) + say(8) + settle,
        "header": both + say(8) + change(0, 6, 1) + settle + say(8),
        "seal": both + say(8) + change(1, 3, 1) + settle,
        "payload": both + say(8) + change(2, 5, 128) + settle + again + both,
        "cut_off": both + say(8) + change(3, 0, 0) + settle,
        "no_seal": both + say(8) + change(4, 0, 0) + settle,
        "other_way": both + say(8) + change(4, 0, 1) + settle,
        "twice": both + say(8) + bytes([7, 2]) + settle,
        "lost": both + say(8) + bytes([7, 0]) + say(8) + settle,
        "late": both + say(8) + say(8) + bytes([8]) + settle,
        "answer": both + say(8, 1) + change(2, 5, 1, side=1) + settle,
        "handshake": change(2, 60, 1) + take + settle + say(8) + settle,
    }
    for name, commands in peers.items():
        write("sealed_endpoint_fuzz", f"peer_{name}", b"e" + commands)
        write("sealed_endpoint_fuzz", f"peer_{name}_signed", b"g" + commands)
