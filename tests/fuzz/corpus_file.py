"""Where seeds lie; used by make_corpus.py and peer_corpus.py."""

import os

HERE = os.path.dirname(os.path.abspath(__file__))


def write(target, name, content):
    folder = os.path.join(HERE, "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as out:
        out.write(content)
