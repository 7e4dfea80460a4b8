"""One operation, without I/O: what to send next, and what an answer means. client/call.go and judge.go do the same."""

from __future__ import annotations

import enum
import random
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import _wire as w
from . import errors
from ._map import Member, Route, View
from ._message import Address, Key, Reply, decode, encode, hash_key, open_answer, tag

if TYPE_CHECKING:
    from ._core import Core, Session

_WRITES = (w.OP_PUT, w.OP_DELETE, w.OP_CAS, w.OP_ADD)
_NAMES = {w.OP_READ: "get", w.OP_PUT: "put", w.OP_DELETE: "delete", w.OP_CAS: "cas", w.OP_ADD: "add"}

_LEAST = 0.001  # the least time that an attempt gets: below it, scheduling tells more than the network
_FIRST_PAUSE, _MAX_PAUSE, _MANY_PAUSES = 0.0001, 0.004, 32
_KEPT = 8  # attempts whose answers are taken; to ignore an older one is as if it was lost
_EXPLORE_ONE_IN = 256


class Verdict(enum.Enum):
    """What an answer means for its call."""

    IGNORE = enum.auto()
    DONE = enum.auto()
    LATER = enum.auto()  # send the next attempt after a pause


@dataclass(frozen=True)
class Result:
    """The result of an operation."""

    value: bytes = b""
    version: int = 0
    node: str = ""  # that answered
    asked: str = ""  # that the answered attempt asked
    shard: int = 0
    epoch: int = 0
    hops: int = 0
    dirty: bool = False
    tail: bool = False
    attempts: int = 0
    elapsed: float = 0.0

    @property
    def counter(self) -> int:
        """The value as a counter of 8 bytes."""
        if len(self.value) != 8:
            raise errors.NotCounter("the value is not a counter of 8 bytes")
        return int.from_bytes(self.value, "big", signed=True)


@dataclass(frozen=True)
class Request:
    """What an operation asks for."""

    op: int
    key: bytes
    value: bytes = b""
    operand: int = 0
    epoch: int = 0  # the only one in which a write may happen; 0: any
    flags: int = 0
    bound: int = 0  # milliseconds
    read_from: str = ""
    timeout: float | None = None


@dataclass
class _Attempt:
    route: Route
    to: Member
    sent: float


@dataclass
class Call:
    """An operation under way. Its runner sends and waits."""

    core: Core
    request: Request
    started: float = field(default_factory=time.monotonic)
    booted: float = field(default_factory=lambda: boot_time())
    wall: float = field(default_factory=time.time)
    attempts: int = 0
    result: Result = field(default_factory=Result)
    error: errors.Error | None = None

    def __post_init__(self) -> None:
        r = self.request
        self.write = r.op in _WRITES
        if not 1 <= len(r.key) <= w.MAX_KEY_BYTES:
            raise errors.BadRequest(f"a key has 1 to {w.MAX_KEY_BYTES} bytes, this one has {len(r.key)}")
        if len(r.value) > w.MAX_VALUE_BYTES:
            raise self._failed(errors.TooLarge, f"{len(r.value)} bytes, and the maximum is {w.MAX_VALUE_BYTES}")
        self.key: Key = hash_key(r.key)
        timeout = self.core.options.timeout if r.timeout is None else r.timeout
        self.until = self.started + (min(timeout, w.MAX_RETRY_S) if self.write else timeout)  # W10
        self.shard = self.core.view.shard(self.key)
        self._view: View | None = None
        self._route: Route
        self._recent: OrderedDict[int, _Attempt] = OrderedDict()
        self._latest: _Attempt
        self._session: Session | None = None
        self._seq = 0
        self._tried = self._asked = 0
        self._pauses = self._misses = self._alive = 0
        self._cause: errors.Error | None = None

    # What to send.

    def next(self, now: float) -> tuple[int, bytes, Address] | None:
        """Returns the id, the datagram and the receiver of the next attempt; None: the call has ended."""
        if self.write and self.attempts and self._overslept():
            self.expire()
            return None
        self._follow()
        if self.request.epoch and self._route.epoch != self.request.epoch:
            self._abandon(errors.OtherEpoch("the shard is in another epoch"))
            return None
        try:
            place = self._choose()
            keyring = self.core.keyring(self._view_now())
            if keyring is not None and not keyring.may(self.request.op):
                raise errors.Denied("denied: this identity may not do it; use one with another role")
        except errors.Error as e:
            self._abandon(e)
            return None
        request_id, message = self._fire(now, place)
        to = self._route.members[place].addr
        return request_id, tag(message, keyring, to) if keyring is not None else message, to

    def _fire(self, now: float, place: int) -> tuple[int, bytes]:
        r, chain = self.request, None
        if self.write:
            if self._session is None:
                self._session = self.core.sessions.take(self.shard)
                self._session.seq += 1
                self._seq = self._session.seq
            chain = (self._session.id, self._seq, r.operand)
            self._alive += 1
        request_id = self.core.request_id()
        self._tried |= 1 << place
        self._asked |= 1 << place
        self._latest = self._recent[request_id] = _Attempt(self._route, self._route.members[place], now)
        if len(self._recent) > _KEPT:
            self._recent.popitem(last=False)
        self.attempts += 1
        return request_id, encode(r.op, r.flags, self.shard, self._route.epoch, r.bound, request_id, self.key, chain, r.value)

    def _view_now(self) -> View:
        assert self._view is not None
        return self._view

    def _follow(self) -> None:
        """Takes up the client's present map."""
        view = self.core.view
        if view is self._view:
            return
        route = view.route(self.shard)
        if self._view is None or not route.same(self._route):
            self._tried = self._asked = 0
        self._view, self._route = view, route

    def overtaken(self) -> bool:
        """Reports whether a newer map has another chain for the key, so that waiting on has no use."""
        view = self.core.view
        return self._view is not None and view is not self._view and view.route(self.shard).epoch != self._route.epoch

    def _choose(self) -> int:
        """Returns the place in the chain of the node to ask."""
        route, members = self._route, self._route.members
        if route.lost or not members:
            why = "every copy of it was lost with its nodes" if route.lost else "it has none"
            raise errors.NoChain(f"no chain serves the key: shard {self.shard}: {why}")
        if self.write:  # every second retry asks another node, which forwards: the path to the head may be broken
            return self._misses // 2 % len(members) if self._misses and self._misses % 2 == 0 else 0
        if self._tried & route.serving == route.serving:
            self._tried = 0
        first, policy = not self._tried, self.request.read_from or self.core.options.read_from
        if policy.startswith("node:"):
            for place, member in enumerate(members):
                if member.name == policy[5:]:
                    return place
            known = "is not in the chain of this key's shard" if policy[5:] in self._view_now().nodes else "does not exist"
            raise errors.BadRequest(f"node {policy[5:]} {known}")
        if policy == "tail" and first:
            return len(members) - 1
        untried = [i for i in range(len(members)) if (route.serving & ~self._tried) >> i & 1]
        if policy == "nearest" and not (first and random.randrange(_EXPLORE_ONE_IN) == 0):
            random.shuffle(untried)  # clients without measurements spread over the chain
            return min(untried, key=lambda i: members[i].near)
        return random.choice(untried)

    def patience(self) -> float:
        """Returns how long the latest attempt waits for its answer."""
        limit, to, rounds = self.core.options.attempt, self._latest.to, self._misses
        if self.write:
            wait, rounds = to.writes.timeout(_LEAST, limit), rounds - 1
        else:
            wait, rounds = to.reads.timeout(_LEAST, limit), rounds // max(self._route.serving.bit_count(), 1)
        return min(wait * (1 << min(max(rounds, 0), 30)), limit)

    def pause(self) -> float:
        """Returns how long to wait before the next attempt after BUSY: longer each time, and random."""
        limit = min(_FIRST_PAUSE * (1 << min(self._pauses, 20)), _MAX_PAUSE)
        limit *= 1 << min(max(self._pauses - _MANY_PAUSES, 0) // 8, 3)
        self._pauses += 1
        return limit / 2 + random.random() * limit

    def _overslept(self) -> bool:
        """Reports whether the machine slept so long that the write must not be sent again (W10)."""
        return boot_time() - self.booted > w.MAX_RETRY_S or time.time() - self.wall > w.MAX_RETRY_S

    # What an answer means.

    def judge(self, now: float, sender: Address, datagram: bytes) -> Verdict:
        """Interprets a datagram. client/judge.go explains the rules."""
        view = self.core.view
        message = open_answer(datagram, view.map.tags, self.core.keys(), sender)
        reply = decode(message) if message is not None else None
        return self.judge_reply(now, sender, reply) if reply is not None else Verdict.IGNORE

    def judge_reply(self, now: float, sender: Address, m: Reply) -> Verdict:
        attempt = self._recent.get(m.request)
        if attempt is None or m.key != self.key or m.shard != self.shard:
            return Verdict.IGNORE
        place = attempt.route.place(sender)
        if place < 0:
            return Verdict.IGNORE
        node, latest = attempt.route.members[place], attempt is self._latest
        self._measure(now, attempt, node, m.status)
        if m.status == w.STATUS_OK:
            if self.request.op == w.OP_ADD and len(m.value) != 8:
                return Verdict.IGNORE  # no node says this
            self._fill(now, attempt, node, m)
            self._release()
            return Verdict.DONE
        if m.status == w.STATUS_BUSY:
            if not latest:
                return Verdict.IGNORE
            self._cause = errors.Busy(f"{node.name} is busy")
            return Verdict.LATER
        if m.status == w.STATUS_NOT_MINE:
            return self._not_mine(attempt, node, m) if latest else Verdict.IGNORE
        if m.status == w.STATUS_NOT_FOUND:
            if self.write:
                return Verdict.IGNORE
            self._fill(now, attempt, node, m)
            self.error = errors.NotFound(self.request.key[:64], m.version)
            return Verdict.DONE
        if not self.write:
            return self._end(errors.BadRequest(f"{node.name} answered {_status(m.status)}"))
        if attempt.route.epoch == self._route.epoch:
            return self._refused(now, attempt, node, m)
        return Verdict.IGNORE

    def _refused(self, now: float, attempt: _Attempt, node: Member, m: Reply) -> Verdict:
        """Takes a refusal of a write, which comes from the epoch of the latest attempt."""
        op, without_value = self.request.op, bool(m.flags & w.FLAG_NO_VALUE)
        if m.status == w.STATUS_CAS_FAILED and op == w.OP_CAS:
            self._fill(now, attempt, node, m)
            return self._end(errors.CASFailed(self.request.operand, m.version, None if without_value else m.value))
        if m.status == w.STATUS_BAD_REQUEST and op == w.OP_ADD:
            return self._end(errors.NotCounter("the value is not a counter of 8 bytes"))
        if m.status == w.STATUS_TOO_LARGE:
            self._alive -= 1  # the node that said so will say so again
            return self._abandon(errors.TooLarge(f"{len(self.request.value)} bytes are too many for the cells of {node.name}"))
        if m.status == w.STATUS_FULL:
            session = bool(m.flags & w.FLAG_SESSION) or not without_value
            full = errors.Full(f"{node.name}: no room for another {'session' if session else 'object'}")
            if without_value and m.flags & w.FLAG_SESSION:
                self._session = None  # the node takes no write in it for some time (W14)
            return self._end(full) if without_value else self._abandon(full)
        return self._abandon(errors.BadRequest(f"{node.name} answered {_status(m.status)}"))

    def _not_mine(self, attempt: _Attempt, node: Member, m: Reply) -> Verdict:
        self._cause = errors.NotMine(node.name, m.shard, attempt.route.epoch, m.epoch)
        if self.core.follower is not None:
            if m.epoch > attempt.route.epoch:
                self.core.stale(self._view_now())
            return Verdict.LATER
        named = (self.request.read_from or self.core.options.read_from).startswith("node:")
        if not self.write and not named and self._asked.bit_count() < len(attempt.route.members):
            return Verdict.LATER  # another node of the chain may know better
        if self.write and m.epoch < attempt.route.epoch:
            return Verdict.LATER  # it is just starting
        return self._abandon(self._cause)

    def _fill(self, now: float, attempt: _Attempt, node: Member, m: Reply) -> None:
        self.result = Result(
            value=m.value if m.status == w.STATUS_OK else b"", version=m.version, node=node.name, asked=attempt.to.name,
            shard=m.shard, epoch=m.epoch, hops=m.hops + 1, dirty=bool(m.flags & w.FLAG_DIRTY),
            tail=bool(m.flags & w.FLAG_TAIL), attempts=self.attempts, elapsed=now - self.started,
        )

    def _measure(self, now: float, attempt: _Attempt, node: Member, status: int) -> None:
        took = now - attempt.sent
        if status in (w.STATUS_BUSY, w.STATUS_NOT_MINE):
            return
        if self.write:
            if status == w.STATUS_OK:
                attempt.to.writes.sample(took)
            return
        attempt.to.reads.sample(took)
        if node is attempt.to:
            node.measured(took)

    # How it ends.

    def missed(self) -> None:
        """Notes that the latest attempt stayed without an answer."""
        self._misses += 1
        if not self.write:
            self._latest.to.near = max(self._latest.to.near, self.core.options.attempt)
        if self._misses > 1:
            self.core.stale(self._view_now())

    def unsent(self, cause: OSError) -> None:
        """Notes that the latest attempt never left."""
        self._misses += 1
        self._cause = errors.Unsent(f"the message to {self._latest.to.name} was not sent: {cause.strerror or cause}")
        if self.write:
            self._alive -= 1

    def expire(self, reason: errors.Error | None = None) -> None:
        """Ends the call because its time is up, or for a reason."""
        if reason is None:
            asked = [m.name for i, m in enumerate(self._route.members) if self._asked >> i & 1] if self._view else []
            text = "no answer in time" + (f" from {', '.join(asked)}" if asked else "")
            reason = errors.Timeout(f"{text}; before: {self._cause}" if self._cause is not None else text)
            reason.__cause__ = self._cause
        self._abandon(reason)

    def _abandon(self, error: errors.Error) -> Verdict:
        """Ends the call with an error that leaves it open whether a write happens. Its session is lost (W10)."""
        if self._alive == 0:
            return self._end(error)
        self._session = None
        return self._fail(errors.OutcomeUnknown(error))

    def _end(self, error: errors.Error) -> Verdict:
        """Ends the call with an error after which it is certain that a write has no effect, and never will."""
        self._release()
        return self._fail(error)

    def _fail(self, error: errors.Error) -> Verdict:
        times = ""
        if self.attempts > 1:
            times = f" ({self.attempts} attempts in {(time.monotonic() - self.started) * 1000:.0f} ms)"
        error.args = (f"{_NAMES[self.request.op]} {self.request.key[:64]!r}: {error}{times}",)
        self.error = error
        return Verdict.DONE

    def _failed(self, kind: Callable[[str], errors.Error], text: str) -> errors.Error:
        return kind(f"{_NAMES[self.request.op]} {self.request.key[:64]!r}: {text}")

    def _release(self) -> None:
        if self._session is not None:
            self.core.sessions.give(self._session)
            self._session = None

    def outcome(self) -> Result:
        """Returns the result of a call that has ended, or raises its error."""
        if self.error is not None:
            raise self.error
        return self.result


def _status(status: int) -> str:
    return w.STATUS_NAMES.get(status, f"status {status}")


def boot_time() -> float:
    """Returns the time since some moment, sleep of the machine included where the system tells it."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.time()
