"""Messages of the data plane: what a client sends, and replies, with tags (T1 to T7 of spec/protocol.md)."""

from __future__ import annotations

import hashlib
import socket
import struct
from dataclasses import dataclass
from typing import NamedTuple

from . import _wire as w

Address = tuple[str, int]

_MASK = (1 << 64) - 1
_SECRET_BYTES = 16


class Key(NamedTuple):
    """A key as it travels: 128 bits of its SHA-256."""

    hi: int
    lo: int


def hash_key(key: bytes) -> Key:
    """Gives the key of a user's key of 1 to MAX_KEY_BYTES bytes."""
    digest = hashlib.sha256(key).digest()
    return Key(int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:16], "big"))


class Reply(NamedTuple):
    """A decoded REPLY."""

    flags: int
    hops: int
    shard: int
    epoch: int
    status: int
    request: int
    key: Key
    version: int
    value: bytes


def _folded(message: bytes) -> int:
    """Returns the ones' complement sum of a message of 16-bit words: its number modulo 0xffff, and never zero."""
    padded = message + b"\0" if len(message) % 2 else message
    return int.from_bytes(padded, "big") % 0xFFFF or 0xFFFF


def encode(
    op: int, flags: int, shard: int, epoch: int, detail: int, request: int, key: Key, chain: tuple[int, int, int] | None,
    value: bytes,
) -> bytes:
    """Encodes a request; chain has the session, the seq and the operand of a write."""
    message = bytearray(w.BASE.pack(w.MAGIC, w.WIRE_VERSION, op, flags, 0, shard, epoch, 0, detail, request, *key))
    if chain is not None:
        message += w.CHAIN.pack(*chain, 0, 0, 0, 0, 0, 0, 0)
        message += value
    struct.pack_into(">H", message, w.BASE_CHECKSUM_AT, 0xFFFF - _folded(bytes(message)))
    return bytes(message)


def decode(message: bytes) -> Reply | None:
    """Decodes a REPLY; None if these bytes are none."""
    if len(message) < w.VERSION_BYTES:
        return None
    magic, version, op, flags, hops, shard, epoch, _, status, request, hi, lo = w.BASE.unpack_from(message)
    if magic != w.MAGIC or version != w.WIRE_VERSION or op != w.OP_REPLY or _folded(message) != 0xFFFF:
        return None
    (object_version,) = w.VERSION.unpack_from(message, w.BASE_BYTES)
    return Reply(flags, hops, shard, epoch, status, request, Key(hi, lo), object_version, message[w.VERSION_BYTES :])


def siphash(secret: bytes, data: bytes) -> int:
    """Computes SipHash-2-4."""
    k0, k1 = int.from_bytes(secret[:8], "little"), int.from_bytes(secret[8:], "little")
    v0, v1 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D
    v2, v3 = k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573

    def rounds(count: int) -> None:
        nonlocal v0, v1, v2, v3
        for _ in range(count):
            v0 = (v0 + v1) & _MASK
            v1 = ((v1 << 13 | v1 >> 51) & _MASK) ^ v0
            v0 = (v0 << 32 | v0 >> 32) & _MASK
            v2 = (v2 + v3) & _MASK
            v3 = ((v3 << 16 | v3 >> 48) & _MASK) ^ v2
            v0 = (v0 + v3) & _MASK
            v3 = ((v3 << 21 | v3 >> 43) & _MASK) ^ v0
            v2 = (v2 + v1) & _MASK
            v1 = ((v1 << 17 | v1 >> 47) & _MASK) ^ v2
            v2 = (v2 << 32 | v2 >> 32) & _MASK

    whole = len(data) // 8 * 8
    last = int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56
    for word in (*struct.unpack(f"<{whole // 8}Q", data[:whole]), last):
        v3 ^= word
        rounds(2)
        v0 ^= word
    v2 ^= 0xFF
    rounds(4)
    return v0 ^ v1 ^ v2 ^ v3


TAGS_OFF, TAGS_ACCEPTED, TAGS_SENT, TAGS_REQUIRED = range(4)


@dataclass(frozen=True)
class Keyring:
    """The keys of a client of a cluster with tags: for each generation that of reads and that of writes, or None."""

    sign: int
    keys: dict[int, tuple[bytes | None, bytes | None]]

    def secret(self, generation: int, op: int) -> bytes | None:
        read, write = self.keys.get(generation, (None, None))
        return read if op in (w.OP_READ, w.OP_REPLY) else write

    def may(self, op: int) -> bool:
        """Reports whether messages with this op can be sent."""
        return self.secret(self.sign, op) is not None


def _end(address: Address) -> bytes:
    """Returns an end of a message as a tag covers it (T5)."""
    return struct.pack(">4sHH", socket.inet_aton(address[0]), address[1], 0)


_NO_END = bytes(8)
_TAGGED = w.WIRE_VERSION | w.TAGGED_MARK


def tag(message: bytes, keyring: Keyring, to: Address) -> bytes:
    """Appends the trailer to a request."""
    secret = keyring.secret(keyring.sign, message[w.BASE_OP_AT])
    assert secret is not None, "the keyring was asked before"
    trailer = w.TRAILER.pack(siphash(secret, _NO_END + _end(to) + message), keyring.sign, w.TRAILER_VERSION, 0)
    return message[: w.BASE_VERSION_AT] + bytes((_TAGGED,)) + message[w.BASE_VERSION_AT + 1 :] + trailer


def open_answer(datagram: bytes, phase: int, keyring: Keyring | None, sender: Address) -> bytes | None:
    """Returns the message of a datagram, if a client may believe it in this phase of tags (T6)."""
    if len(datagram) <= w.BASE_VERSION_AT or datagram[w.BASE_VERSION_AT] != _TAGGED:
        return datagram if phase != TAGS_REQUIRED else None
    if len(datagram) < w.BASE_BYTES + w.TRAILER_BYTES:
        return None
    body = datagram[: -w.TRAILER_BYTES]
    message = body[: w.BASE_VERSION_AT] + bytes((w.WIRE_VERSION,)) + body[w.BASE_VERSION_AT + 1 :]
    if phase == TAGS_OFF or (keyring is None and phase != TAGS_REQUIRED):
        return message
    if keyring is None:
        return None
    value, generation, version, reserved = w.TRAILER.unpack(datagram[-w.TRAILER_BYTES :])
    secret = keyring.secret(generation, message[w.BASE_OP_AT])
    if secret is None or version != w.TRAILER_VERSION or reserved != 0:
        return None
    return message if siphash(secret, _end(sender) + _NO_END + message) == value else None
