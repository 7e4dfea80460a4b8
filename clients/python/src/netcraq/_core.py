"""What the blocking and the asyncio client share: options, the present map, sessions and the forms of operations."""

from __future__ import annotations

import itertools
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from . import _wire as w
from . import errors
from ._call import Request, boot_time
from ._follow import Follower, Identity
from ._map import Map, View, controller_address, parse_cluster
from ._message import TAGS_OFF, TAGS_REQUIRED, TAGS_SENT, Keyring

_MAX_APART = 1.0  # seconds by which the clocks of a machine that runs may move apart between two writes


@dataclass(frozen=True)
class Options:
    """Options of a client, as its constructor takes them."""

    attempt: float = 0.05
    timeout: float = 1.0
    read_from: str = "nearest"
    local: str = ""

    def check(self) -> None:
        if self.attempt <= 0 or self.timeout <= 0:
            raise errors.BadRequest("attempt and timeout are positive numbers of seconds")
        check_read_from(self.read_from)


def check_read_from(policy: str) -> None:
    if policy not in ("nearest", "spread", "tail") and not policy.startswith("node:"):
        raise errors.BadRequest(f'read_from is "nearest", "spread", "tail" or "node:NAME", not {policy!r}')


@dataclass
class Session:
    """Carries one write at a time (W10)."""

    id: int
    shard: int
    age: int
    seq: int = 0


class Sessions:
    """The idle sessions of a client, by shard.

    When the wall clock and the boot clock moved apart, the machine may have been paused, or be a copy of another: new
    sessions are drawn then. A forked child draws new ones too.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[int, list[Session]] = {}
        self._age = 0
        self._apart = time.time() - boot_time()
        self._pid = os.getpid()

    def take(self, shard: int) -> Session:
        with self._lock:
            apart = time.time() - boot_time()
            if abs(apart - self._apart) > _MAX_APART or os.getpid() != self._pid:
                self._idle.clear()
                self._age += 1
                self._pid = os.getpid()
            self._apart = apart
            idle = self._idle.get(shard)
            if idle:
                return idle.pop()
            return Session(random_id(), shard, self._age)

    def give(self, session: Session) -> None:
        """Takes a session back after a write with a certain outcome."""
        with self._lock:
            if session.age == self._age and os.getpid() == self._pid:
                self._idle.setdefault(session.shard, []).append(session)


def random_id() -> int:
    return secrets.randbits(64) or 1


class Core:
    """The state of a client that its operations share."""

    def __init__(self, options: Options, first: Map, follower: Follower | None) -> None:
        options.check()
        self.options, self.follower = options, follower
        self.view = View(first)
        if options.read_from.startswith("node:") and options.read_from[5:] not in self.view.nodes:
            raise errors.BadRequest(f"there is no node {options.read_from[5:]!r} in the cluster")
        self.sessions = Sessions()
        self.changed: Callable[[], None] = lambda: None
        self._ids = itertools.count(random_id())
        if follower is not None:
            follower.watch(self._take)

    def request_id(self) -> int:
        """Returns an id that no other attempt of this client has: a random start, counted up."""
        return next(self._ids) & (1 << 64) - 1

    def _take(self, m: Map) -> None:
        """Makes a newer map the client's. One that cannot follow the present map is not taken."""
        try:
            self.view = View(m, self.view)
        except errors.Error:
            return
        self.changed()

    def stale(self, view: View) -> None:
        """Tells the follower that a view's map seems to be old."""
        if self.follower is not None and view is self.view:
            self.follower.stale(view.map.version)

    def keys(self) -> Keyring | None:
        return self.follower.keys if self.follower is not None else None

    def keyring(self, view: View) -> Keyring | None:
        """Returns the keys to send with; None: without tags (T6)."""
        phase, keys = view.map.tags, self.keys()
        if phase < TAGS_SENT or (keys is None and phase != TAGS_REQUIRED):
            return None
        return keys if keys is not None else Keyring(0, {})

    def after_fork(self) -> None:
        """Readies a copy of this client in a forked child: no id of the parent is used again."""
        self._ids = itertools.count(random_id())
        self.sessions = Sessions()
        if self.follower is not None:
            self.follower.after_fork()

    def close(self) -> None:
        if self.follower is not None:
            self.follower.close()


def open_core(
    options: Options, cluster: Map | str | os.PathLike[str] | None, controllers: Iterable[str] | None, identity: str | None,
) -> Core:
    """Finds the cluster as the commands do, and waits for its first map."""
    options.check()
    if cluster is not None and controllers:
        raise errors.BadRequest("give either a cluster file or controllers")
    found = cluster if isinstance(cluster, Map) else _find(cluster, controllers)
    if isinstance(found, Map):
        if found.tags != TAGS_OFF:
            raise errors.BadRequest("a cluster with tags has controllers: follow them")
        return Core(options, found, None)
    directory = identity if identity is not None else os.environ.get("NETCRAQ_IDENTITY", "")
    follower = Follower(found, Identity(directory) if directory else None)
    try:
        return Core(options, follower.first(options.timeout), follower)
    except BaseException:
        follower.close()
        raise


def _find(cluster: str | os.PathLike[str] | None, controllers: Iterable[str] | None) -> Map | list[str]:
    given = list(controllers or ())
    if not given and cluster is None:
        given = [each for each in os.environ.get("NETCRAQ_CONTROLLERS", "").split(",") if each]
    if given:
        return [controller_address(each) for each in given]
    path = Path(cluster if cluster is not None else os.environ.get("NETCRAQ_CLUSTER") or "/run/netcraq/cluster.yaml")
    try:
        return parse_cluster(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise errors.Error(
            f"the cluster file {path} cannot be read ({e}): start a cluster with `netcraq up`, or name its file or its "
            "controllers"
        ) from e


def _octets(given: str | bytes) -> bytes:
    return given.encode() if isinstance(given, str) else bytes(given)


def read_request(key: str | bytes, read_from: str | None, any_version: bool, bounded: float | None,
                 timeout: float | None) -> Request:
    if read_from is not None:
        check_read_from(read_from)
    flags = bound = 0
    if any_version:
        flags = w.FLAG_ANY
    elif bounded is not None:
        flags, bound = w.FLAG_BOUNDED, -int(-bounded * 1000 // 1)
        if not 0 <= bound < 1 << 16:
            raise errors.BadRequest("the bound of a read is 0 to 65.535 s")
    return Request(w.OP_READ, _octets(key), flags=flags, bound=bound, read_from=read_from or "", timeout=timeout)


def write_request(op: int, key: str | bytes, value: str | bytes = b"", operand: int = 0, in_epoch: int = 0,
                  timeout: float | None = None) -> Request:
    if op == w.OP_ADD and not -(1 << 63) <= operand < 1 << 63:
        raise errors.BadRequest(f"add {key!r}: {operand} is not a whole number of 64 bits with a sign")
    if op == w.OP_CAS and not 0 <= operand < 1 << 64:
        raise errors.BadRequest(f"cas {key!r}: {operand} is not a version, which is a whole number of at least 0")
    return Request(op, _octets(key), _octets(value), operand & (1 << 64) - 1, in_epoch, timeout=timeout)
