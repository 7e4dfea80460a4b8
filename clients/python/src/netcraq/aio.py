"""The client for asyncio."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterable
from types import TracebackType

from . import _wire as w
from . import errors
from ._call import Call, Request, Result, Verdict
from ._core import Core, Options, open_core, read_request, write_request
from ._map import Map
from ._message import Address, Keyring, decode, open_answer

_DATAGRAM = 1 << 11
_READ_AT_ONCE = 256  # datagrams, before other tasks run
_RECEIVE_BUFFER = 1 << 20


class _Running:
    """An operation under way."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.ids: list[int] = []
        self.ended = False
        self.wake: asyncio.Future[Verdict | None] | None = None  # None: the time is up, or there is a newer map

    def tell(self, verdict: Verdict | None) -> None:
        if self.wake is not None and not self.wake.done():
            self.wake.set_result(verdict)

    async def wait(self, seconds: float) -> Verdict | None:
        if self.ended:
            return Verdict.DONE
        loop = asyncio.get_running_loop()
        self.wake = loop.create_future()
        timer = loop.call_later(max(seconds, 0), self.tell, None)
        try:
            return await self.wake
        finally:
            timer.cancel()


class Client:
    """A client of a cluster for one event loop: ``async with await Client.open(...) as client``.

    It does what :class:`netcraq.Client` does. Any number of tasks may use it; at most ``window`` operations are under
    way at once, and others wait for their turn.
    """

    def __init__(self, core: Core, window: int) -> None:
        self._core = core
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        self._socket.bind((core.options.local, 0))
        self._loop.add_reader(self._socket, self._readable)
        self._attempts: dict[int, _Running] = {}
        self._window = asyncio.Semaphore(window)
        self._closed = False
        core.changed = self._map_changed

    @classmethod
    async def open(
        cls,
        cluster: Map | str | os.PathLike[str] | None = None,
        *,
        controllers: Iterable[str] | None = None,
        identity: str | None = None,
        attempt: float = 0.05,
        timeout: float = 1.0,
        read_from: str = "nearest",
        local: str = "",
        window: int = 256,
    ) -> Client:
        """Opens a cluster; :class:`netcraq.Client` explains the arguments."""
        options = Options(attempt, timeout, read_from, local)
        core = await asyncio.to_thread(open_core, options, cluster, controllers, identity)
        return cls(core, window)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends operations under way with an error, writes among them with an unknown outcome."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._core.close()
        for running in set(self._attempts.values()):
            running.tell(None)

    @property
    def map(self) -> Map:
        """The present map."""
        return self._core.view.map

    async def get(
        self, key: str | bytes, *, read_from: str | None = None, any: bool = False, bounded: float | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Reads a key, or raises NotFound."""
        return await self._run(read_request(key, read_from, any, bounded, timeout))

    async def put(self, key: str | bytes, value: str | bytes, *, in_epoch: int = 0, timeout: float | None = None) -> Result:
        """Stores a value and returns its version."""
        return await self._run(write_request(w.OP_PUT, key, value, 0, in_epoch, timeout))

    async def delete(self, key: str | bytes, *, in_epoch: int = 0, timeout: float | None = None) -> Result:
        """Removes a key, whether it exists or not."""
        return await self._run(write_request(w.OP_DELETE, key, b"", 0, in_epoch, timeout))

    async def cas(
        self, key: str | bytes, expected: int, value: str | bytes, *, in_epoch: int = 0, timeout: float | None = None,
    ) -> Result:
        """Stores a value if the key's version is the expected one, 0 for a key that does not exist, or raises CASFailed."""
        return await self._run(write_request(w.OP_CAS, key, value, expected, in_epoch, timeout))

    async def add(self, key: str | bytes, delta: int, *, in_epoch: int = 0, timeout: float | None = None) -> int:
        """Adds to a counter of 64 bits and returns the sum; a key that does not exist counts as 0."""
        return (await self._run(write_request(w.OP_ADD, key, b"", delta, in_epoch, timeout))).counter

    async def _run(self, request: Request) -> Result:
        async with self._window:
            if self._closed:
                raise errors.Closed("the client is closed")
            running = _Running(Call(self._core, request))
            try:
                while not await self._attempt(running):
                    pass
            finally:
                for each in running.ids:
                    self._attempts.pop(each, None)
            return running.call.outcome()

    async def _attempt(self, running: _Running) -> bool:
        """Sends once and waits for the answer. It returns whether the call has ended."""
        call, now = running.call, time.monotonic()
        attempt = call.next(now)
        if attempt is None:
            return True
        request_id, datagram, to = attempt
        running.ids.append(request_id)
        self._attempts[request_id] = running
        until, pausing = now + call.patience(), False
        try:
            self._socket.sendto(datagram, to)
        except OSError as e:
            call.unsent(e)
            until, pausing = now + call.pause(), True
        while True:
            verdict = await running.wait(min(until, call.until) - now)
            now = time.monotonic()
            if verdict is Verdict.DONE:
                return True
            if verdict is Verdict.LATER:
                until, pausing = now + call.pause(), True
                continue
            if self._closed:
                call.expire(errors.Closed("the client is closed"))
                return True
            if now >= call.until:
                self._readable()  # the process may have been paused while answers came
                if not running.ended:
                    call.expire()
                return True
            if now >= until:
                if not pausing:
                    call.missed()
                return False
            if call.overtaken():
                return False

    def _readable(self) -> None:
        """Takes the answers that are in the socket to their operations."""
        view, keys = self._core.view, self._core.keys()
        for _ in range(_READ_AT_ONCE):
            try:
                datagram, sender = self._socket.recvfrom(_DATAGRAM)
            except OSError:
                return
            self._judge(view.map.tags, keys, datagram, sender)

    def _judge(self, phase: int, keys: Keyring | None, datagram: bytes, sender: Address) -> None:
        message = open_answer(datagram, phase, keys, sender)
        reply = decode(message) if message is not None else None
        running = self._attempts.get(reply.request) if reply is not None else None
        if reply is None or running is None or running.ended:
            return
        verdict = running.call.judge_reply(time.monotonic(), sender, reply)
        running.ended = verdict is Verdict.DONE
        if verdict is not Verdict.IGNORE:
            running.tell(verdict)

    def _map_changed(self) -> None:
        """Has operations whose chain changed tried again. The follower's thread calls it."""
        try:
            self._loop.call_soon_threadsafe(self._look)
        except RuntimeError:
            pass  # the loop has ended

    def _look(self) -> None:
        for running in set(self._attempts.values()):
            if running.call.overtaken():
                running.tell(None)
