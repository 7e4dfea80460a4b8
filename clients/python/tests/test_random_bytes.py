"""Random bytes in the place of everything that comes from a network: none of it raises anything but an Error."""

from __future__ import annotations

import os
import random
import sys
import unittest
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from netcraq import _wire as w
from netcraq._follow import Stream, _frame, decode_keys
from netcraq._map import decode_map, parse_cluster
from netcraq._message import Key, Keyring, decode, encode, open_answer, siphash, tag
from netcraq.errors import Error

_ROUNDS = int(os.environ.get("ROUNDS", "20000"))
_SECRET = bytes(range(16))
_RING = Keyring(1, {1: (_SECRET, _SECRET)})


def part(number: int, content: bytes) -> bytes:
    """Encodes a field of Protocol Buffers."""
    return bytes((number << 3 | 2, len(content))) + content


def number(field: int, value: int) -> bytes:
    return bytes((field << 3, value))


# A map of two nodes and a chain, and keys, as a controller sends them.
_MAP = (
    number(1, 1) + part(2, b"c") + number(3, 2)
    + part(4, number(1, 1) + part(2, b"n1") + part(3, b"127.0.0.1:4411"))
    + part(4, number(1, 2) + part(2, b"n2") + part(3, b"127.0.0.2:4411") + part(4, b"127.0.0.2:4412"))
    + part(5, number(1, 1) + part(2, b"\1\2") + part(5, b"\0\0\0\1")) + part(6, b"127.0.0.3:4413")
)
_KEYS = number(1, 1) + part(2, number(1, 1) + part(2, _SECRET) + part(3, _SECRET))
_FILE = "epoch: 1\nshards: 4\nnodes:\n    - name: n1\n      addr: 127.0.0.1:1\nchains: [[n1]]\n"


class _Bytes:
    """A connection on which these bytes come."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def settimeout(self, _: float | None) -> None: ...

    def sendall(self, _: bytes) -> None: ...

    def recv(self, count: int) -> bytes:
        taken, self._content = self._content[:count], self._content[count:]
        return taken


def stream_of(content: bytes) -> Stream:
    stream = Stream.__new__(Stream)
    stream.__dict__.update(_socket=_Bytes(content), _unread=b"", _body=bytearray(), _consumed=0, status=-1)
    return stream


class RandomBytes(unittest.TestCase):
    def setUp(self) -> None:
        self.seed = int(os.environ.get("NETCRAQ_SEED", random.randrange(1 << 32)))
        print(f"NETCRAQ_SEED={self.seed}")
        self.random = random.Random(self.seed)

    def changed(self, content: bytes) -> bytes:
        """Returns random bytes, or the content with some of its bytes changed, or a part of it."""
        if self.random.random() < 0.2:
            return self.random.randbytes(self.random.randrange(200))
        out = bytearray(content)
        for _ in range(self.random.randrange(4)):
            if out:
                out[self.random.randrange(len(out))] = self.random.randrange(256)
        return bytes(out[: self.random.randrange(len(out) + 1)] if self.random.random() < 0.3 else out)

    def test_messages(self) -> None:
        request = encode(w.OP_PUT, 0, 1, 1, 0, 7, Key(1, 2), (1, 2, 3), b"value")
        tagged = tag(request, _RING, ("127.0.0.1", 4411))
        whole = w.BASE.pack(w.MAGIC, w.WIRE_VERSION, w.OP_REPLY, 0, 1, 0, 1, 0, 0, 7, 1, 2) + bytes(20)
        for _ in range(_ROUNDS):
            for content in (request, tagged, whole):
                datagram = self.changed(content)
                for phase in range(4):
                    message = open_answer(datagram, phase, self.random.choice((None, _RING)), ("127.0.0.1", 4411))
                    if message is not None:
                        decode(message)

    def test_maps_and_keys(self) -> None:
        self.assertEqual(list(decode_map(_MAP).nodes), ["n1", "n2"])
        self.assertEqual(decode_keys(_KEYS), _RING)
        for _ in range(_ROUNDS):
            for take, content in ((decode_map, _MAP), (decode_keys, _KEYS)):
                with suppress(Error):
                    take(self.changed(content))

    def test_cluster_files(self) -> None:
        for _ in range(_ROUNDS // 4):
            with suppress(Error):
                parse_cluster(self.changed(_FILE.encode()).decode(errors="replace"))

    def test_streams(self) -> None:
        message = bytes((0, 0, 0, 0, len(_MAP))) + _MAP
        frames = _frame(4, 0, 0, b"") + _frame(0, 0, 1, message[:50]) + _frame(0, 8, 1, b"\2" + message[50:] + bytes(2))
        trailers = _frame(1, 5, 1, b"\x40" + bytes.fromhex("889acac8b21234da8f0137"))
        with self.assertRaisesRegex(Error, "role"):
            list(stream_of(frames + trailers).messages(lambda: None))
        for each in stream_of(frames).messages(lambda: None):
            self.assertEqual(each, _MAP)
            break
        for _ in range(_ROUNDS):
            with suppress(Error):
                for each in stream_of(self.changed(frames + trailers)).messages(lambda: None):
                    decode_map(each)


class Vectors(unittest.TestCase):
    def test_siphash(self) -> None:
        self.assertEqual(siphash(bytes(range(16)), bytes(range(15))), 0xA129CA6149BE45E5)  # of its paper


if __name__ == "__main__":
    unittest.main()
