"""The blocking client."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType

from . import _wire as w
from . import errors
from ._call import Call, Request, Result, Verdict
from ._core import Options, open_core, read_request, write_request
from ._map import Map
from ._message import Address

_LOOK_FOLLOWING, _LOOK = 0.002, 0.01  # how often a waiting operation looks at the map, and whether the client was closed
_DATAGRAM = 1 << 11

_clients: weakref.WeakSet[Client] = weakref.WeakSet()


class _Socket:
    """Carries one operation at a time. It is not connected, because the tail may answer a request to another node."""

    def __init__(self, local: str) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind((local, 0))
        self._ready = select.poll()
        self._ready.register(self._socket, select.POLLIN)

    def send(self, datagram: bytes, to: Address) -> None:
        self._socket.sendto(datagram, to)

    def receive(self, wait: float) -> tuple[bytes, Address] | None:
        """Returns the next datagram; None if none comes for so long."""
        with suppress(OSError):  # also of a datagram sent before that met a closed port
            return self._socket.recvfrom(_DATAGRAM)
        if self._ready.poll(max(wait, 0) * 1000):
            with suppress(OSError):
                return self._socket.recvfrom(_DATAGRAM)
        return None

    def close(self) -> None:
        self._socket.close()


class Client:
    """A client of a cluster. Its methods may be called from several threads at once.

    Give the path of a cluster file or the addresses of controllers; without either, the environment names them as it
    does for the commands: NETCRAQ_CONTROLLERS, NETCRAQ_CLUSTER, else the file that `netcraq up` writes as root.

    An operation ends within ``timeout`` seconds. The client repeats an attempt that stays without an answer, at the
    latest after ``attempt`` seconds. Writes happen once, however often they are repeated. If the outcome of one cannot
    be learnt, the error is :class:`OutcomeUnknown`.
    """

    def __init__(
        self,
        cluster: Map | str | os.PathLike[str] | None = None,
        *,
        controllers: Iterable[str] | None = None,
        identity: str | None = None,
        attempt: float = 0.05,
        timeout: float = 1.0,
        read_from: str = "nearest",
        local: str = "",
    ) -> None:
        self._core = open_core(Options(attempt, timeout, read_from, local), cluster, controllers, identity)
        self._lock = threading.Lock()
        self._idle: list[_Socket] = []
        self._closed = False
        _clients.add(self)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Frees the sockets. Operations under way end with an error, writes among them with an unknown outcome."""
        self._core.close()
        with self._lock:
            self._closed = True
            for each in self._idle:
                each.close()
            self._idle.clear()

    @property
    def map(self) -> Map:
        """The present map."""
        return self._core.view.map

    def get(
        self, key: str | bytes, *, read_from: str | None = None, any: bool = False, bounded: float | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Reads a key, or raises NotFound.

        The read is linearizable at whichever node. With ``any`` it returns the newest version that the asked node
        knows; ``bounded`` is the same at a node whose lease ran out less than so many seconds ago.
        """
        return self._run(read_request(key, read_from, any, bounded, timeout))

    def put(self, key: str | bytes, value: str | bytes, *, in_epoch: int = 0, timeout: float | None = None) -> Result:
        """Stores a value and returns its version."""
        return self._run(write_request(w.OP_PUT, key, value, 0, in_epoch, timeout))

    def delete(self, key: str | bytes, *, in_epoch: int = 0, timeout: float | None = None) -> Result:
        """Removes a key, whether it exists or not."""
        return self._run(write_request(w.OP_DELETE, key, b"", 0, in_epoch, timeout))

    def cas(
        self, key: str | bytes, expected: int, value: str | bytes, *, in_epoch: int = 0, timeout: float | None = None,
    ) -> Result:
        """Stores a value if the key's version is the expected one, 0 for a key that does not exist, or raises CASFailed."""
        return self._run(write_request(w.OP_CAS, key, value, expected, in_epoch, timeout))

    def add(self, key: str | bytes, delta: int, *, in_epoch: int = 0, timeout: float | None = None) -> int:
        """Adds to a counter of 64 bits and returns the sum; a key that does not exist counts as 0."""
        return self._run(write_request(w.OP_ADD, key, b"", delta, in_epoch, timeout)).counter

    def _run(self, request: Request) -> Result:
        call = Call(self._core, request)
        carrier = self._take()
        try:
            while not self._attempt(carrier, call):
                pass
        finally:
            self._give(carrier)
        return call.outcome()

    def _attempt(self, carrier: _Socket, call: Call) -> bool:
        """Sends once and waits for the answer. It returns whether the call has ended."""
        now = time.monotonic()
        attempt = call.next(now)
        if attempt is None:
            return True
        _, datagram, to = attempt
        until, pausing = now + call.patience(), False
        look = _LOOK if self._core.follower is None else _LOOK_FOLLOWING
        try:
            carrier.send(datagram, to)
        except OSError as e:
            call.unsent(e)
            until, pausing = now + call.pause(), True
        while True:
            got = carrier.receive(min(until, call.until, now + look) - now)
            now = time.monotonic()
            if got is not None:
                verdict = call.judge(now, got[1], got[0])
                if verdict is Verdict.DONE:
                    return True
                if verdict is Verdict.LATER:
                    until, pausing = now + call.pause(), True
                    continue
            if self._closed:
                call.expire(errors.Closed("the client is closed"))
                return True
            if now >= call.until:
                if not self._drain(carrier, call):
                    call.expire()
                return True
            if now >= until:
                if not pausing:
                    call.missed()
                return False
            if call.overtaken():
                return False

    @staticmethod
    def _drain(carrier: _Socket, call: Call) -> bool:
        """Takes the answers that are in the socket when time is up: the process may have been paused meanwhile."""
        while (got := carrier.receive(0)) is not None:
            if call.judge(time.monotonic(), got[1], got[0]) is Verdict.DONE:
                return True
        return False

    def _take(self) -> _Socket:
        with self._lock:
            if self._closed:
                raise errors.Closed("the client is closed")
            if self._idle:
                return self._idle.pop()
        return _Socket(self._core.options.local)

    def _give(self, carrier: _Socket) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(carrier)
                return
        carrier.close()

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        for each in self._idle:
            each.close()
        self._idle.clear()
        if not self._closed:
            self._core.after_fork()


def _after_fork() -> None:
    for client in list(_clients):
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
