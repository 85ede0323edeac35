"""Writes the seeds of the fuzz targets into FOLDER/TARGET/NAME.

usage: make_corpus.py FOLDER        FOLDER must be new or empty
       make_corpus.py --new-keys    replaces the keys in corpus/, with the program openssl

A build runs this (fuzz.bzl), so the seeds are not checked in. The folder corpus/ beside this file
keeps, as TARGET.NAME, what cannot be made the same twice (keys, recorded handshakes) and what a
fuzzer found; these are copied.
"""

import argparse
import base64
import glob
import gzip
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

from peer_corpus import etcd_values, host_messages, seals, sealed_endpoints

HERE = os.path.dirname(os.path.abspath(__file__))
KEPT = os.path.join(HERE, "corpus")
MEND = b"\1"  # frame_fuzz puts sizes and checksums right
SEALED = b"\3"  # the same, and a seal comes with the frame


def header(op, flags=0, error=0, elements=0, payload_bytes=0, clock=0, samples=0):
    """The 128 bytes of common/wire/frame.h; the checksums are left 0."""
    ids = (7, 1, 1, 3, 0, 1)  # job, view, generation, chunk, node, incarnation
    octets = bytes([1, op, flags, 0, 0, 0, 0, error])
    counters = struct.pack("<5Q", clock, clock, 0, 0, 0)
    tail = struct.pack("<IIQQQQQ", samples, 0, payload_bytes, 0, 0, 0, 0)
    frame = b"STRA" + octets + struct.pack("<6I", *ids) + struct.pack("<I", elements)
    return frame + counters + tail


def frames(write):
    hello = struct.pack("<IIQQQ", 1, 1, 0x1122334455667788, 0x99AABBCCDDEEFF00, 0)
    floats = struct.pack("<4f", 0.5, -1.0, 2.0, 0.25)
    write("frame_fuzz", "hello", MEND + header(1, payload_bytes=32) + hello)
    for name, op in (("hello_ok", 2), ("init_ok", 4), ("cut", 7), ("retire", 9), ("retire_ok", 10)):
        write("frame_fuzz", name, MEND + header(op))
    for name, op in (("init", 3), ("push_pull", 5), ("answer", 6), ("cut_answer", 8)):
        write("frame_fuzz", name, MEND + header(op, 0, 0, 4, 16, clock=9, samples=64) + floats)
    write("frame_fuzz", "empty_push", MEND + header(5, flags=1))
    write("frame_fuzz", "replayed_push", MEND + header(5, 2, 0, 4, 16) + floats)
    write("frame_fuzz", "sealed_push", SEALED + header(5, 0, 0, 4, 16, clock=9) + floats)
    write("frame_fuzz", "retry", MEND + header(11, error=3))
    write("frame_fuzz", "error", MEND + header(12, error=7, payload_bytes=5) + b"chunk")
    write("frame_fuzz", "wrong_checksum", b"\0" + header(2))
    write("frame_fuzz", "half_a_header", MEND + header(2)[:64])


def payloads(write):
    """A codec of common/wire/payload.h, the number of elements, the payload."""

    def seed(name, codec, elements, payload):
        write("codec_fuzz", name, bytes([codec]) + struct.pack("<H", elements) + payload)

    floats = struct.pack("<4f", 0.5, -1.0, 2.0, 0.25)
    seed("fp32", 0, 4, floats)
    seed("fp16", 1, 3, struct.pack("<f3H", 2.0, 0x3E00, 0x8001, 0x7BFF))
    seed("fp16_infinite", 1, 1, struct.pack("<fH", 2.0, 0x7C00))
    seed("fp16_two_blocks", 1, 1025, struct.pack("<2f1025H", 1.0, 0.5, *range(1025)))
    seed("bf16", 2, 2, struct.pack("<2H", 0x3FC0, 0x8001))
    seed("int8", 3, 3, struct.pack("<f3b", 0.25, 127, -127, 3))
    seed("int8_scale_nan", 3, 3, struct.pack("<f3b", float("nan"), 127, -127, 3))
    seed("int8_least_code", 3, 1, struct.pack("<fb", 0.25, -128))
    seed("one_bit", 4, 10, struct.pack("<f2B", 0.75, 5, 2))
    seed("one_bit_unused_bit", 4, 10, struct.pack("<f2B", 0.75, 5, 4))
    seed("sparse", 5, 7, struct.pack("<III2f", 2, 1, 6, -0.5, 4.0))
    seed("sparse_none", 5, 7, struct.pack("<I", 0))
    seed("sparse_out_of_range", 5, 7, struct.pack("<III2f", 2, 1, 7, -0.5, 4.0))
    seed("sparse_unsorted", 5, 9, struct.pack("<III2f", 2, 6, 1, -0.5, 4.0))
    seed("sparse_huge_count", 5, 7, struct.pack("<III2f", 0x20000002, 1, 6, -0.5, 4.0))
    for compression in range(7):
        for number, feedback in enumerate(("residual", "follow")):
            choice = 0x80 | (compression + 7 * number)
            seed(f"encode_{compression}_{feedback}", choice, 4, floats + floats[::-1] * 20)


def idx(dimensions, values):
    magic = struct.pack(">I", 0x0800 | len(dimensions))
    return magic + b"".join(struct.pack(">I", size) for size in dimensions) + values


def idx_files(write):
    labels = idx([4], bytes([0, 1, 9, 3]))
    images = idx([2, 3, 3], bytes(range(18)))
    for name, parity, plain in (("labels", b"\0", labels), ("images", b"\1", images)):
        packed = gzip.compress(plain, mtime=0)
        write("idx_fuzz", name, parity + plain)
        write("idx_fuzz", name + "_gzip", parity + packed)
        write("idx_fuzz", name + "_truncated", parity + plain[:-1])
        write("idx_fuzz", name + "_gzip_truncated", parity + packed[:-3])
    write("idx_fuzz", "huge_claim", b"\1" + idx([0xFFFF, 0x7FFF, 1], b""))
    write("idx_fuzz", "zeros_gzip", b"\0" + gzip.compress(idx([65536], bytes(65536)), mtime=0))


def cifar10_files(write):
    pixels = bytes(range(256)) * 12
    write("cifar10_fuzz", "two_samples", b"\0" + pixels + b"\t" + pixels)
    write("cifar10_fuzz", "label_out_of_range", b"\n" + pixels)
    write("cifar10_fuzz", "cut_off", b"\1" + pixels[:-1])


def safetensors(head, values=b""):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + values


def safetensors_files(write):
    first = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    second = {"dtype": "F32", "shape": [1], "data_offsets": [16, 20]}
    good = safetensors({"__metadata__": {"step": "7"}, "a.weight": first, "a.bias": second},
                       struct.pack("<5f", 1, 2, 3, 4, 5))
    write("safetensors_fuzz", "two_tensors", good)
    write("safetensors_fuzz", "cut_off", good[:-1])
    write("safetensors_fuzz", "no_tensors", safetensors({}))
    write("safetensors_fuzz", "scalar",
          safetensors({"s": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}}, bytes(4)))
    write("safetensors_fuzz", "empty_tensor",
          safetensors({"e": {"dtype": "F32", "shape": [0, 9], "data_offsets": [0, 0]}}))
    write("safetensors_fuzz", "overlap", safetensors({"a": first, "b": first}, bytes(16)))
    write("safetensors_fuzz", "huge_shape", safetensors(
        {"h": {"dtype": "F32", "shape": [2**63, 4], "data_offsets": [0, 0]}}))
    write("safetensors_fuzz", "deep_json", safetensors(b'{"d":' + b"[" * 200 + b"]" * 200 + b"}"))
    write("safetensors_fuzz", "long_header_claim", struct.pack("<Q", 2**63) + b"{}")


def image_files(write):
    def tensor(begin, elements=1):
        return {"dtype": "F32", "shape": [elements], "data_offsets": [begin, begin + 4 * elements]}

    def counts(**more):
        return json.dumps({"clock": 5, "version": 5, "updates": 5, "samples": 9, "state": 0,
                           "applied": [5, 6], **more})

    values = struct.pack("<6f", 1, 2, 3, 4, 5, 6)
    format_name = {"format": "strata-chunks-1"}
    write("image_fuzz", "nothing", safetensors({"__metadata__": format_name}))
    good = safetensors({"__metadata__": {**format_name, "0": counts(state=2), "2": counts()},
                        "0/weights": tensor(0), "0/state0": tensor(4), "0/state1": tensor(8),
                        "0/copy": tensor(12), "0/mean_square": tensor(16),
                        "2/weights": tensor(20)}, values)
    write("image_fuzz", "two_chunks", good)
    write("image_fuzz", "cut_off", good[:-1])
    write("image_fuzz", "other_format", safetensors({"__metadata__": {"format": "pt"}}))
    write("image_fuzz", "overlap", safetensors(
        {"__metadata__": {**format_name, "0": counts(), "1": counts()},
         "0/weights": tensor(0, 2), "1/weights": tensor(8)}, values[:12]))
    write("image_fuzz", "not_finite", safetensors(
        {"__metadata__": {**format_name, "0": counts()}, "0/weights": tensor(0)},
        struct.pack("<f", float("nan"))))
    facts = {"clock": 5, "buckets": 4, "last": True,
             "parts": [{"bucket": 1, "version": 5, "applied": [5, 6]}],
             "tables": [{"table": 0, "name": "items", "columns": 1, "state": 1}]}
    columns = {"ids": ("I64", [1]), "weights": ("F32", [1, 1]), "state": ("F32", [1, 1]),
               "clocks": ("I32", [1]), "pushes": ("I32", [1])}
    head, at = {"__metadata__": {"format": "strata-rows-1", "rows": json.dumps(facts)}}, 0
    for name, (dtype, shape) in columns.items():
        end = at + (8 if dtype == "I64" else 4)
        head[f"0/{name}"] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    row = struct.pack("<qffii", 9, 0.5, 0.25, 4, 1)
    write("image_fuzz", "rows", safetensors(head, row))
    write("image_fuzz", "rows_id_below_0", safetensors(head, b"\xff" * 8 + row[8:]))


def node_image_files(write):
    def tensor(begin, elements=1):
        return {"dtype": "F32", "shape": [elements], "data_offsets": [begin, begin + 4 * elements]}

    weights = {"version": 1, "updates": 1, "samples": 4, "state": 1}
    counts = {"elements": 1, "push": {"samples": 3, "unsent": 1},
              "local": {**weights, "clock": 8, "last_samples": 2}, "norms": weights}
    texts = {"format": "strata-node-1", "node": json.dumps({"node": 1, "clock": 8}),
             "0": json.dumps(counts), "1": json.dumps({"elements": 2})}
    names = ["0/unsent0", "0/local/weights", "0/local/state0", "0/local/start", "0/norms/weights",
             "0/norms/state0", "0/arena"]
    tensors = {name: tensor(4 * i) for i, name in enumerate(names)}
    good = safetensors({"__metadata__": texts, **tensors}, struct.pack("<7f", *range(7)))
    write("node_image_fuzz", "all_parts", good)
    write("node_image_fuzz", "cut_off", good[:-1])
    write("node_image_fuzz", "a_tensor_too_few",
          safetensors({"__metadata__": texts, **{name: tensors[name] for name in names[:5]}},
                      struct.pack("<5f", *range(5))))


def rank_image_files(write):
    head = b"STRANK01" + struct.pack("<IIQQ", 3, 0, 40, 5) + bytes(32)
    write("rank_image_fuzz", "five_bytes", head + b"state")
    write("rank_image_fuzz", "cut_off", head + b"stat")
    write("rank_image_fuzz", "empty", head[:24] + bytes(40))


def examples(folder):
    """The .textproto files of a folder in examples/: name -> text."""
    texts = {}
    for path in sorted(glob.glob(os.path.join(HERE, "../../examples", folder, "*.textproto"))):
        with open(path, "rb") as file:
            texts[os.path.basename(path)] = file.read()
    if not texts:
        sys.exit(f"make_corpus.py: no .textproto file in examples/{folder}")
    return texts


def jobs(write):
    for folder in (".", "c", "linear"):
        for name, text in examples(folder).items():
            write("job_fuzz", name, text)
    base = b'name: "j" model { zoo: "mlp" } data { synthetic {} }'
    settings = [b"schedule.base_lr=0.1", b"consistency.lazy.staleness=3", b"consistency.sync={}",
                b"debug.delays={node: 1 delay_ms: 20}", b"ranks=4"]
    for number, setting in enumerate(settings):
        write("job_fuzz", f"setting_{number}", base + b"\0" + setting)
    write("job_fuzz", "all_settings", base + b"\0" + b"\n".join(settings))
    write("job_fuzz", "program", b'name: "p" program { path: "/bin/true" } ranks: 1')
    write("job_fuzz", "nan", base + b"schedule { base_lr: nan warmup_epochs: -inf }")
    write("job_fuzz", "unknown_field", base + b"nothing: 1")
    write("job_fuzz", "not_utf8", b'name: "\xff\xfe"')


def clusters(write):
    for name, text in examples("clusters").items():
        write("cluster_fuzz", name, text + b"\0" + b"1.5\n2\n")
    node = b"nodes { ranks: 4 compute { %s } link { gbit_per_s: 1 } } "
    server = b"servers { count: 2 link { gbit_per_s: 1 } }"
    write("cluster_fuzz", "trace", node % b'trace_file: "t"' + server + b"\0" + b"1\n0.5\n")
    write("cluster_fuzz", "bad_trace", node % b'trace_file: "t"' + server + b"\0" + b"1\nnan\n")
    write("cluster_fuzz", "long",
          node % b"log_normal { median_ms: 1e7 sigma: 10 } slow: 1e4" + server)
    write("cluster_fuzz", "on_nodes", node % b"constant_ms: 1" + b"servers { on_nodes: true }")
    write("cluster_fuzz", "infinite", node % b"constant_ms: inf slow: nan" + server)


def task_replies(write):
    """The first byte says what is asked for: describe, attach, compute, evaluate."""
    steps = b'"version":1,"batch":32,"steps_per_epoch":10,"total_steps":30'
    replies = {
        "described": b'0{"described":{%s,"evaluate_every":5,"optimizer":"sgd {}","rate":0.1,'
                     b'"tensors":[{"name":"w","shape":[8,3]},{"name":"b","shape":[]}]}}' % steps,
        "too_large": b'0{"described":{%s,"tensors":[{"name":"w","shape":[65536,65536]}]}}' % steps,
        "overflow": b'0{"described":{%s,"tensors":[{"name":"w",'
                    b'"shape":["18446744073709551615","18446744073709551615"]}]}}' % steps,
        "attached": b'1{"attached":{}}',
        "computed": b'2{"computed":{"samples":32,"loss":0.25}}',
        "no_number": b'2{"computed":{"samples":32,"loss":"NaN"}}',
        "measured": b'3{"measured":{"values":{"test_accuracy":0.9,"error":1e-05}}}',
        "bad_name": b'3{"measured":{"values":{"a b\xc3\xa9":1}}}',
        "failed": b'2{"failed":"ValueError: no (a.py:3)"}',
        "no_json": b"2Traceback",
    }
    for name, line in replies.items():
        write("task_reply_fuzz", name, line)


def s3_texts(write):
    listed = (b"<Contents><Key>a&amp;b/&#x63;&#8364;</Key><Size>1</Size></Contents>"
              b"<NextContinuationToken>1/2+3==</NextContinuationToken>")
    texts = {
        "list": b'<?xml version="1.0"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/">'
                b"<IsTruncated>true</IsTruncated>" + listed + b"</ListBucketResult>",
        "error": b"<Error><Code>SlowDown</Code><Message>&lt;later&gt;</Message></Error>",
        "cdata": b"<a b='c' d=\"e\"><!-- x --><![CDATA[<&]]>]]<b/><?p i?>\r</a>\n",
        "deep": b"<a>" * 40,
        "doctype": b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
        "no_reference": b"<a>&#xd800;</a>",
        "html": b"<html><body>Bad gateway<br></body></html>",
        "profile": b"# x\n[default]\naws_access_key_id = A\ns3 =\n  a = b\n"
                   b"[profile p] ; x\nregion=r",
        "no_profile": b"[default\naws_secret_access_key = s",
    }
    for name, text in texts.items():
        write("s3_fuzz", name, text)


def kept(name):
    with open(os.path.join(KEPT, name), "rb") as file:
        return file.read()


def make_keys():
    """A cluster's authority, a member's key file and a request, as common/keys writes them."""
    days = "49000"  # until 2160, wherever a test is run

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)

    def keep(name, content):
        with open(os.path.join(KEPT, "keys_fuzz." + name), "wb") as out:
            out.write(content)

    with tempfile.TemporaryDirectory() as folder:
        def path(name):
            return os.path.join(folder, name)

        def content(name):
            with open(path(name), "rb") as file:
                return file.read()

        for name in ("root", "leaf"):
            openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-out", path(name + ".key"))
        openssl("req", "-x509", "-key", path("root.key"), "-subj", "/CN=strata blue", "-days", days,
                "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                "-addext", "subjectAltName=URI:spiffe://blue", "-out", path("root.pem"))
        openssl("req", "-new", "-key", path("leaf.key"), "-subj", "/",
                "-out", path("request.pem"))
        with open(path("extensions"), "w") as out:
            out.write("basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
                      "extendedKeyUsage=serverAuth,clientAuth\n"
                      "subjectAltName=URI:spiffe://blue/worker/w1\n")
        openssl("x509", "-req", "-in", path("request.pem"), "-CA", path("root.pem"), "-CAkey",
                path("root.key"), "-days", days, "-extfile", path("extensions"), "-out",
                path("leaf.pem"))
        root, leaf = content("root.pem"), content("leaf.pem")
        keep("authority", b"p" + content("root.key") + root)
        keep("key_file", b"p" + content("leaf.key") + leaf + root)
        keep("request", b"p" + content("request.pem"))
        keep("chain", b"p" + leaf + root)


def keys(write):
    kinds = {b"CERTIFICATE": b"c", b"PRIVATE KEY": b"k", b"CERTIFICATE REQUEST": b"r"}
    for name in ("authority", "key_file", "request"):
        blocks = re.findall(rb"BEGIN ([A-Z ]+)-----([^-]+)-----END", kept("keys_fuzz." + name))
        for number, (label, text) in enumerate(blocks):
            der = base64.b64decode(text)
            write("keys_fuzz", f"{name}_{number}_der", kinds[label] + der)
            write("keys_fuzz", f"{name}_{number}_cut_off", kinds[label] + der[:-1])
    whole = kept("keys_fuzz.key_file")
    write("keys_fuzz", "key_file_cut_off", whole[:-40])
    write("keys_fuzz", "encrypted", whole.replace(b"PRIVATE", b"ENCRYPTED PRIVATE"))
    write("keys_fuzz", "two_keys", whole + kept("keys_fuzz.authority")[1:])
    token = b"strata1." + b"AQ" * 21 + b"E." + b"MDEyMzQ1Njc4OWFiY2RlZg"
    for name, text in (("token", token), ("token_cut_off", token[:-1]),
                       ("token_version", token.replace(b"1.", b"2.", 1)),
                       ("token_character", token.replace(b"AQ", b"A+", 1))):
        write("keys_fuzz", name, b"t" + text)
    for number, uri in enumerate((b"spiffe://blue/worker/w1", b"spiffe://blue",
                                  b"spiffe://blue/root/w1", b"https://a/b/c", b"\xff\n")):
        write("keys_fuzz", f"uri_{number}", b"u" + uri)


def policies(write):
    """What follows 'p' is a policy file, what follows 'n' a path and a prefix."""
    alice = (b'users { name: "ada" namespace: "vision" role: SUBMIT slots: 8\n'
             b'  path_prefixes: "/data//vision/" path_prefixes: "s3://weights/vision" }\n')
    files = {
        "users": alice + b'users { name: "bob" role: ADMIN }\nallow_plain: true\n',
        "default": alice + b"default_user { role: NONE }\ntrusted_network: true\n",
        "twice": alice + alice,
        "no_role": b'users { name: "ada" }',
        "unknown_role": b'users { name: "ada" role: KING }',
        "unknown_field": b'user { name: "ada" }',
        "dots": b'users { name: "ada" role: VIEW path_prefixes: "/a/../b" }',
        "relative": b'users { name: "ada" role: VIEW path_prefixes: "a" }',
        "name": b'users { name: "a b" role: VIEW }',
        "not_utf8": b'users { name: "\xff" role: VIEW }',
        "cut_off": alice[:-3],
        "empty": b"",
    }
    for name, text in files.items():
        write("policy_fuzz", name, b"p" + text)
    paths = (b"/data//vision/./a/\n/data/vision", b"/data/visions\n/data/vision", b"/a/../b\n/",
             b"s3://bucket/a\ns3://bucket", b"s3:///a", b"/\n/", b"mine")
    for number, text in enumerate(paths):
        write("policy_fuzz", f"path_{number}", b"n" + text)


def metrics(write):
    """What follows 'l' is a metrics.jsonl, what follows 'e' an event file."""
    line = (b'{"step":4,"samples":64,"epoch":0.125,"loss":13.53,"samples_per_s":729.4,'
            b'"bytes_pushed":1975616,"bytes_answered":1481712,"staleness":[3,1,2],'
            b'"waiting_share":0.2,"hidden_share":0.04,"test_accuracy":0.1,"test_loss":2.3,'
            b'"values":{"a \\"b\\"":1e-300},"elapsed_s":0.1,"pushes":8,'
            b'"pushes_during_backward":0,"lr":0.05,"final":true}\n')
    files = {
        "lines": line + line,
        "null": line.replace(b"13.53", b"null"),
        "late": b'{"step":3,"test_accuracy":0.5,"elapsed_s":1}\n',
        "cut_off": line + line[:40],
        "not_utf8": b'{"step":3,"values":{"\xff":1}}\n',
        "large": b'{"step":18446744073709551615,"loss":1e999}\n',
        "deep": b"[" * 2000 + b"\n",
        "empty": b"",
    }
    for name, text in files.items():
        write("metrics_fuzz", name, b"l" + text)
    # The record that exports begin with: the file's version.
    version = bytes.fromhex("0f000000000000006d532b091a0d") + b"brain.Event:2\xfc\x98\x51\x29"
    for name, text in {"version": version * 2, "cut": version[:-1], "long": b"\xff" * 12}.items():
        write("metrics_fuzz", f"events_{name}", b"e" + text)


def copy_kept(write, folder):
    for file in sorted(os.listdir(KEPT)):
        target, _, name = file.partition(".")
        if not name or not os.path.isdir(os.path.join(folder, target)):
            sys.exit(f"tests/fuzz/corpus/{file} is not TARGET.NAME, or no seeds of TARGET are made")
        if os.path.exists(os.path.join(folder, target, name)):
            sys.exit(f"tests/fuzz/corpus/{file}: make_corpus.py makes a seed of this name")
        write(target, name, kept(file))


def make_seeds(folder):
    def write(target, name, content):
        os.makedirs(os.path.join(folder, target), exist_ok=True)
        with open(os.path.join(folder, target, name), "wb") as out:
            out.write(content)

    if os.path.exists(folder) and os.listdir(folder):
        sys.exit(f"make_corpus.py: {folder} is not empty")
    makers = (frames, payloads, cifar10_files, idx_files, safetensors_files, image_files,
              node_image_files, rank_image_files, jobs, clusters, task_replies, s3_texts, keys,
              policies, metrics, etcd_values, sealed_endpoints)
    for make in makers:
        make(write)
    host_messages(write, kept)
    seals(write, kept)
    copy_kept(write, folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--new-keys", action="store_true")
    args = parser.parse_args()
    if args.new_keys == (args.folder is not None):
        parser.error("give a folder or --new-keys")
    if args.new_keys:
        make_keys()
    else:
        make_seeds(args.folder)


if __name__ == "__main__":
    main()
