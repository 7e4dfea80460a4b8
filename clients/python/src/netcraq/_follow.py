"""Keeps the newest map of a cluster with controllers, and the keys of its messages.

A thread reads the stream of maps of one controller or node, and another one that of keys. The calls are gRPC, in the
little of HTTP/2 that a call with one small request needs.
"""

from __future__ import annotations

import base64
import os
import random
import socket
import ssl
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from ._map import Map, decode_map, fields, integer, octets
from ._message import TAGS_OFF, TAGS_REQUIRED, Keyring
from .errors import Denied, Error, Timeout

_CONNECT_WITHIN = 0.5
_STALLED_AFTER = 5.0
_RETRY_AFTER, _RETRY_AT_LEAST = 0.02, 1.0
_NEWS_WITHIN = 0.2  # in doubt, a source without news for so long is left for another
_ASKED_NODES = 3
_MAX_MAP_BYTES = 64 << 20
_WINDOW = (1 << 31) - 1
_SERVICE = "/netcraq.controller.v1.Controller/"

# The name of gRPC's status in the code of HPACK.
_GRPC_STATUS = bytes.fromhex("9acac8b21234da8f")
_REASONS = {
    7: "the role of this identity may not call it", 12: "it is no controller or node", 14: "the cluster is not formed yet",
    16: "it does not believe the certificate",
}


class Identity:
    """A directory that `netcraq certs make` has made: certificate, key and authority."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.context()

    def context(self) -> ssl.SSLContext:
        """Reads the files, which may have been renewed."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # a node's certificate has no names: verify checks those of others
        try:
            context.load_verify_locations(os.path.join(self._directory, "ca.pem"))
            context.load_cert_chain(os.path.join(self._directory, "cert.pem"), os.path.join(self._directory, "key.pem"))
            revoked = os.path.join(self._directory, "revoked.crl")
            if os.path.exists(revoked):
                _load_revoked(context, revoked)
        except (OSError, ssl.SSLError) as e:
            raise Error(
                f"{self._directory} is no identity ({e}): make some with `netcraq certs make`, and give one role's directory"
            ) from e
        context.set_alpn_protocols(["h2"])
        return context

    @staticmethod
    def verify(connection: ssl.SSLSocket, host: str) -> None:
        """Checks the role of a server, and its names, if it has any."""
        cert: Any = connection.getpeercert() or {}
        units = [value for part in cert.get("subject", ()) for name, value in part if name == "organizationalUnitName"]
        if units not in (["controller"], ["node"]):
            raise Denied(f"the server at {host} has the role {units}, which serves no maps")
        names = [value for _, value in cert.get("subjectAltName", ())]
        if names and host not in names:
            raise Denied(f"the server's certificate is for {', '.join(names)}, not for {host}")


def _load_revoked(context: ssl.SSLContext, path: str) -> None:
    """Loads a list of revoked certificates, which is in DER; OpenSSL reads PEM."""
    with open(path, "rb") as file:
        content = base64.encodebytes(file.read()).decode()
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(f"-----BEGIN X509 CRL-----\n{content}-----END X509 CRL-----\n")
        file.flush()
        context.load_verify_locations(file.name)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _literal(name: str, value: str) -> bytes:
    """Encodes a header field as a literal that is never indexed."""
    return b"\x10" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()


class Stream:
    """A call with one request and a stream of answers, on a connection of its own."""

    def __init__(self, addr: str, identity: Identity | None, method: str, request: bytes) -> None:
        host, _, port = addr.rpartition(":")
        host = host.strip("[]")
        self._socket: socket.socket = socket.create_connection((host, int(port)), _CONNECT_WITHIN)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if identity is not None:
                secured = identity.context().wrap_socket(self._socket)
                self._socket = secured
                identity.verify(secured, host)
            self._call(addr, "https" if identity is not None else "http", method, request)
        except BaseException:
            self._socket.close()
            raise
        self._unread = b""
        self._body = bytearray()
        self._consumed = 0
        self.status = -1  # gRPC's, once the stream has ended with one

    def _call(self, addr: str, scheme: str, method: str, request: bytes) -> None:
        headers = b"".join(
            _literal(name, value)
            for name, value in ((":method", "POST"), (":scheme", scheme), (":path", _SERVICE + method),
                                (":authority", addr), ("content-type", "application/grpc"), ("te", "trailers"))
        )
        self._socket.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _frame(4, 0, 0, struct.pack(">HI", 2, 0) + struct.pack(">HI", 4, _WINDOW))
            + _frame(8, 0, 0, struct.pack(">I", _WINDOW - 65535))
            + _frame(1, 4, 1, headers)
            + _frame(0, 1, 1, struct.pack(">BI", 0, len(request)) + request)
        )

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _read(self, count: int, until: Callable[[], float | None]) -> bytes:
        """Reads exactly so many bytes. until says how long to wait for the first: TimeoutError; None: for ever."""
        while len(self._unread) < count:
            self._socket.settimeout(until() if not self._unread else _STALLED_AFTER)
            try:
                got = self._socket.recv(1 << 16)
            except TimeoutError:
                if not self._unread:
                    raise
                raise Error("the connection stalled") from None
            if not got:
                raise Error("the connection ended")
            self._unread += got
        taken, self._unread = self._unread[:count], self._unread[count:]
        return taken

    def messages(self, until: Callable[[], float | None]) -> Iterator[bytes]:
        """Returns the messages of the stream, until it ends."""
        body = self._body
        while True:
            head = self._read(9, until)
            length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
            if length > 1 << 14:
                raise Error("a frame of HTTP/2 is too long")
            payload = self._payload(length)
            if kind == 0 and stream == 1:
                padding = payload[0] + 1 if flags & 8 and payload else 0
                body += payload[1 : length - padding + 1] if padding else payload
                self._credit(length)
                while (message := self._message(body)) is not None:
                    yield message
            elif kind == 1 and stream == 1:
                self._trailers(payload)
            elif kind == 4 and not flags & 1:
                self._socket.sendall(_frame(4, 1, 0, b""))
            elif kind == 6 and not flags & 1:
                self._socket.sendall(_frame(6, 1, 0, payload))
            elif kind in (3, 7):
                raise Error("the server ended the call")
            if kind in (0, 1) and stream == 1 and flags & 1:
                raise Error(_REASONS.get(self.status, f"the call ended with gRPC's status {self.status}"))

    def _payload(self, length: int) -> bytes:
        try:
            return self._read(length, lambda: _STALLED_AFTER) if length else b""
        except TimeoutError:
            raise Error("the connection stalled") from None

    def _message(self, body: bytearray) -> bytes | None:
        """Takes the next whole message out of what came."""
        if len(body) < 5:
            return None
        compressed, length = body[0], int.from_bytes(body[1:5], "big")
        if compressed or length > _MAX_MAP_BYTES:
            raise Error("an answer is compressed or too long")
        if len(body) < 5 + length:
            return None
        message = bytes(body[5 : 5 + length])
        del body[: 5 + length]
        return message

    def _credit(self, count: int) -> None:
        """Gives the server back what it may send."""
        self._consumed += count
        if self._consumed > 1 << 20:
            update = struct.pack(">I", self._consumed)
            self._socket.sendall(_frame(8, 0, 0, update) + _frame(8, 0, 1, update))
            self._consumed = 0

    def _trailers(self, block: bytes) -> None:
        """Looks for gRPC's status. Its name is in the code of HPACK; its value has one or two digits, and is not."""
        at = block.find(_GRPC_STATUS)
        value = block[at + len(_GRPC_STATUS) :] if at >= 0 else b""
        digits = value[1 : value[0] + 1] if value else b""
        if digits.isdigit():
            self.status = int(digits)


class Follower:
    """Follows the map of a cluster, from one source at a time, until it is closed."""

    def __init__(self, addrs: list[str], identity: Identity | None) -> None:
        self._addrs, self._identity = addrs, identity
        self.keys: Keyring | None = None
        self._newest: Map | None = None
        self._changed = threading.Condition()
        self._watchers: list[Callable[[Map], None]] = []
        self._failures: dict[str, Exception] = {}
        self._start()

    def _start(self) -> None:
        self._closed = False
        self._doubt = False
        self._keyed = False
        self._streams: set[Stream] = set()
        threading.Thread(target=self._run, name="netcraq-map", daemon=True).start()
        if self._newest is not None:
            self._follow_keys(self._newest)

    def after_fork(self) -> None:
        self._changed = threading.Condition()
        self._start()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._watchers.clear()
            streams = list(self._streams)
            self._changed.notify_all()
        for stream in streams:
            stream.close()

    def first(self, within: float) -> Map:
        """Returns the first map of a cluster that is formed, with its keys if it sends nothing without."""

        def ready() -> bool:
            m = self._newest
            return m is not None and m.formed() and (m.tags != TAGS_REQUIRED or self.keys is not None)

        with self._changed:
            if self._changed.wait_for(ready, within) and self._newest is not None:
                return self._newest
        reasons = "; ".join(f"{addr}: {_why(self._failures.get(addr))}" for addr in self._addrs)
        if self._newest is None:
            raise Timeout(
                f"no map of the cluster from any controller or node in time ({reasons}): name others with controllers= or "
                "NETCRAQ_CONTROLLERS"
            )
        raise Timeout(f"the cluster still waits for nodes or keys; `netcraq status` shows how many ({reasons})")

    def watch(self, changed: Callable[[Map], None]) -> None:
        """Has changed called with the present map and every newer one."""
        with self._changed:
            self._watchers.append(changed)
            if self._newest is not None:
                changed(self._newest)

    def stale(self, version: int) -> None:
        """Says that the map of this version seems to be old. It does not wait."""
        if self._newest is None or self._newest.version <= version:
            self._doubt = True

    def _offer(self, m: Map) -> bool:
        with self._changed:
            before = self._newest
            if before is not None and before.cluster and m.cluster != before.cluster:
                raise Error(f"it belongs to cluster {m.cluster!r}, not to {before.cluster!r}")
            if before is not None and m.version <= before.version:
                return False
            self._newest = m
            self._doubt = False
            for changed in self._watchers:
                changed(m)
            self._follow_keys(m)
            self._changed.notify_all()
        return True

    def _run(self) -> None:
        failures = left = 0
        source = ""
        while not self._closed:
            sources = self._sources()
            source = random.choice([each for each in sources if each != source] or sources)
            news = self._listen(source)
            left = 0 if news else left + 1
            if left >= len(sources):  # all were asked: the map counts as the newest
                self._doubt, left = False, 0
            failures = 0 if news or source not in self._failures else failures + 1
            if failures:
                time.sleep(random.random() * min(_RETRY_AFTER * 2 ** min(failures, 10), _RETRY_AT_LEAST))

    def _sources(self) -> list[str]:
        m = self._newest
        if m is None:
            return self._addrs
        nodes = random.sample(m.agents, min(_ASKED_NODES, len(m.agents)))
        return list({*self._addrs, *m.controllers, *nodes})

    def _listen(self, source: str) -> bool:
        """Takes maps from one source until it fails, or has no news while the map is in doubt."""
        news = False
        heard = time.monotonic()

        def until() -> float:
            nonlocal heard
            if not self._doubt and self._newest is not None:
                heard = time.monotonic()
            return _NEWS_WITHIN / 4

        known = self._newest.version if self._newest is not None else 0
        try:
            stream = Stream(source, self._identity, "Map", _varint_field(1, known))
        except (OSError, Error) as e:
            self._failures[source] = e
            return False
        try:
            if not self._note(stream):
                return news
            messages = stream.messages(until)
            while not self._closed and time.monotonic() - heard < _NEWS_WITHIN:
                try:
                    news = self._offer(decode_map(next(messages))) or news
                except TimeoutError:
                    messages = stream.messages(until)  # nothing came, so nothing was read
            self._failures.pop(source, None)
        except (OSError, Error) as e:
            self._failures[source] = e
        finally:
            self._streams.discard(stream)
            stream.close()
        return news

    def _note(self, stream: Stream) -> bool:
        """Notes a stream that close has to end; False: the follower is closed already."""
        with self._changed:
            if not self._closed:
                self._streams.add(stream)
            return not self._closed

    def _follow_keys(self, m: Map) -> None:
        """Follows the keys from the first map on that needs some."""
        if m.tags != TAGS_OFF and not self._keyed:
            self._keyed = True
            threading.Thread(target=self._run_keys, name="netcraq-keys", daemon=True).start()

    def _run_keys(self) -> None:
        failures = 0
        while not self._closed:
            m = self._newest
            source = random.choice(m.controllers if m is not None and m.controllers else self._addrs)
            try:
                stream = Stream(source, self._identity, "Keys", b"")
                try:
                    if self._note(stream):
                        for message in stream.messages(lambda: None):
                            keyring = decode_keys(message)
                            with self._changed:
                                self.keys = keyring
                                self._changed.notify_all()
                            failures = 0
                finally:
                    self._streams.discard(stream)
                    stream.close()
            except (OSError, Error) as e:
                self._failures[source] = e
            failures += 1
            time.sleep(random.random() * min(_RETRY_AFTER * 2 ** min(failures, 10), _RETRY_AT_LEAST))


def _why(failure: Exception | None) -> str:
    """Says why a source gives no map, without numbers of system errors."""
    if failure is None:
        return "no answer"
    if isinstance(failure, ConnectionRefusedError):
        return "nothing answers there: is it running?"
    if isinstance(failure, socket.gaierror):
        return "the name has no address"
    if isinstance(failure, OSError) and failure.strerror:
        return failure.strerror
    return str(failure)


def _varint_field(number: int, value: int) -> bytes:
    """Encodes a field of Protocol Buffers; zero is left out."""
    if not value:
        return b""
    out = bytearray((number << 3,))
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_keys(message: bytes) -> Keyring:
    """Decodes the KeysResponse of api/controller.proto."""
    sign, keys = 0, {}
    for number, value in fields(message):
        if number == 1:
            sign = integer(value)
        elif number == 2:
            generation, read, write = 0, None, None
            for inner, part in fields(octets(value)):
                if inner == 1:
                    generation = integer(part)
                elif inner == 2:
                    read = _secret(octets(part))
                elif inner == 3:
                    write = _secret(octets(part))
            keys[generation] = (read, write)
    return Keyring(sign, keys)


def _secret(given: bytes) -> bytes | None:
    return given if len(given) == 16 else None
