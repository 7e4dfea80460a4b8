"""The map of a cluster: which chain serves each shard. It comes from a cluster file, a controller or a node."""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass, field
from typing import Any

from . import _wire as w
from ._message import TAGS_OFF, TAGS_REQUIRED, Address, Key
from .errors import Error

CONTROLLER_PORT = w.PORT + 2
AGENT_PORT = w.PORT + 1


class Estimate:
    """The time to an answer, as TCP measures it (RFC 6298); mean 0: never measured."""

    __slots__ = ("deviation", "mean")

    def __init__(self) -> None:
        self.mean = self.deviation = 0.0

    def sample(self, took: float) -> None:
        if not self.mean:
            self.mean, self.deviation = max(took, 1e-9), took / 2
            return
        off = took - self.mean
        self.deviation += (abs(off) - self.deviation) / 4
        self.mean = max(self.mean + off / 8, 1e-9)

    def timeout(self, least: float, limit: float) -> float:
        return min(max(self.mean + 4 * self.deviation, least), limit) if self.mean else limit


@dataclass(eq=False)
class Member:
    """A node as the client sees it. It lasts from map to map."""

    name: str
    addr: Address
    reads: Estimate = field(default_factory=Estimate)
    writes: Estimate = field(default_factory=Estimate)
    near: float = 0.0  # how fast it answers reads itself; 0: never measured

    def measured(self, took: float) -> None:
        """Takes a sample of the node's own answers. A much better one replaces the average."""
        if not self.near or took < self.near / 2:
            self.near = max(took, 1e-9)
        else:
            self.near += (min(took, 2 * self.near) - self.near) / 8


@dataclass(frozen=True)
class Chain:
    """The chain of some shards in one epoch, head first."""

    epoch: int
    members: tuple[str, ...]
    learner: int = -1  # place of the member that answers no reads yet
    lost: bool = False


@dataclass(frozen=True)
class Map:
    """The state of a cluster at some moment."""

    version: int
    cluster: str
    nodes: dict[str, Address]
    chains: tuple[Chain, ...]
    by_shard: tuple[int, ...]  # index of each shard's chain
    controllers: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    tags: int = TAGS_OFF

    def formed(self) -> bool:
        return any(chain.epoch for chain in self.chains)

    def check(self) -> None:
        """Raises an error that names the first thing wrong with the map."""
        shards = len(self.by_shard)
        if not 1 <= shards <= w.MAX_SHARDS or shards & (shards - 1):
            raise Error(f"the map has {shards} shards, and a power of two up to {w.MAX_SHARDS} is wanted")
        for chain in self.chains:
            inside = 1 <= chain.learner < len(chain.members) - 1
            known = all(name in self.nodes for name in chain.members)
            twice = len(set(chain.members)) != len(chain.members)
            if len(chain.members) > w.MAX_CHAIN or not known or twice or (chain.learner != -1 and not inside):
                raise Error(f"the map has a chain that cannot be: {chain}")
            if chain.members and not chain.epoch:
                raise Error("the map has a chain in epoch 0, and the first epoch is 1")
        if any(not 0 <= i < len(self.chains) for i in self.by_shard):
            raise Error("the map has a shard without a chain")


def address(given: str) -> Address:
    """Parses the address of a node: IPv4 and a port."""
    host, _, port = given.rpartition(":")
    try:
        ipaddress.IPv4Address(host)
        number = int(port)
    except ValueError:
        number = 0
    if not 0 < number < 1 << 16:
        raise Error(f"{given!r} is not an IPv4 address and port, such as 192.0.2.1:{w.PORT}")
    return host, number


def controller_address(given: str) -> str:
    """Adds the port of controllers to an address without one."""
    host, colon, port = given.strip().rpartition(":")
    if not colon or given.strip().endswith("]"):
        host, port = given.strip().strip("[]"), str(CONTROLLER_PORT)
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16 or re.search(r"[ /,]", host):
        raise Error(f"{given!r} is not a host and port, such as 192.0.2.1:{CONTROLLER_PORT}")
    return f"{host}:{port}"


def parse_cluster(text: str) -> Map | list[str]:
    """Parses a cluster file: the map of a static cluster, or the addresses of controllers."""
    try:
        content = json.loads(text) if text.lstrip().startswith("{") else _parse_yaml(text)
        if not isinstance(content, dict):
            raise Error("the cluster file is no mapping")
        if content.get("controllers"):
            return [controller_address(str(each)) for each in content["controllers"]]
        return _static(content)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as e:
        raise Error(f"the cluster file is not one that `netcraq` wrote: {e}") from e


def _static(content: dict[str, Any]) -> Map:
    nodes = {str(n["name"]): address(str(n["addr"])) for n in content["nodes"]}
    if len(nodes) != len(content["nodes"]) or len(set(nodes.values())) != len(nodes):
        raise Error("nodes: a name or an address stands twice")
    epoch, shards, chains = int(content["epoch"]), int(content["shards"]), content["chains"]
    if not chains or not all(chains) or epoch < 1:
        raise Error("chains: at least one is needed, none is empty, and the first epoch is 1")
    m = Map(
        version=epoch,
        cluster=str(content.get("name", "")),
        nodes=nodes,
        chains=tuple(Chain(epoch, tuple(str(name) for name in chain)) for chain in chains),
        by_shard=tuple(shard % len(chains) for shard in range(min(shards, w.MAX_SHARDS + 1))),
    )
    m.check()
    return m


def _parse_yaml(text: str) -> Any:
    """Parses the YAML of cluster files: mappings and lists, in blocks or in brackets, of plain words."""
    lines = []
    for line in text.splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).rstrip()
        if line and line != "---":
            lines.append((len(line) - len(line.lstrip()), line.strip()))
    value, rest = _block(lines)
    if rest:
        raise ValueError(f"cannot read {rest[0][1]!r}")
    return value


_Lines = list[tuple[int, str]]


def _block(lines: _Lines) -> tuple[Any, _Lines]:
    """Reads the value that begins at the first line, and returns the lines behind it."""
    indent, first = lines[0]
    listed = _is_item(first)
    if not listed and not re.match(r"[\w-]+:( |$)", first):
        return _inline(first), lines[1:]
    items: list[Any] = []
    mapping: dict[str, Any] = {}
    while lines and lines[0][0] == indent and _is_item(lines[0][1]) == listed:
        text = lines[0][1]
        if listed:
            inside = text[1:].lstrip()
            nested = [(indent + len(text) - len(inside), inside)] if inside else []
            value, lines = _block(nested + lines[1:])
            items.append(value)
            continue
        name, colon, inside = text.partition(":")
        if not colon:
            raise ValueError(f"cannot read {text!r}")
        lines = lines[1:]
        if inside.strip():
            mapping[name] = _inline(inside.strip())
        elif lines and (lines[0][0] > indent or (lines[0][0] == indent and _is_item(lines[0][1]))):
            mapping[name], lines = _block(lines)
        else:
            mapping[name] = None
    return (items if listed else mapping), lines


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _inline(text: str) -> Any:
    """Reads a word, or lists and mappings in brackets."""
    tokens = re.findall(r"\"[^\"]*\"|'[^']*'|[\[\]{},]|[^\[\]{},\"']+", text)
    words = [t.strip() for t in tokens if t.strip()]
    if text[:1] not in "[{":
        return text.strip("\"'")
    out = []
    for word in words:
        if word in "[]{},":
            out.append(word)
            continue
        name, colon, value = word.partition(": ")
        out.append(f"{json.dumps(name.strip(chr(34)))}: {json.dumps(value.strip())}" if colon else json.dumps(word.strip("\"'")))
    return json.loads("".join(out))


def decode_map(message: bytes) -> Map:
    """Decodes the MapResponse of api/controller.proto."""
    version = shards = phase = required = 0
    cluster, controllers = "", []
    nodes: dict[int, tuple[str, str, str]] = {}
    chains: list[tuple[Chain, list[int], int, bytes]] = []
    for number, value in fields(message):
        if number == 1:
            version = integer(value)
        elif number == 2:
            cluster = text_of(value)
        elif number == 3:
            shards = integer(value)
        elif number == 4:
            node, entry = _decode_node(octets(value))
            if not node or node in nodes:
                raise Error(f"the map has node {node} twice, or it has no number")
            nodes[node] = entry
        elif number == 5:
            chains.append(_decode_chain(octets(value)))
        elif number == 6:
            controllers.append(text_of(value))
        elif number == 7:
            required = integer(value)
        elif number == 8:
            phase = integer(value)
    if shards > w.MAX_SHARDS:
        raise Error(f"the map has {shards} shards")
    by_shard = [-1] * shards
    named: list[Chain] = []
    for i, (chain, members, learner, packed) in enumerate(chains):
        if not all(member in nodes for member in members):
            raise Error("the map has a chain with an unknown node")
        place = members.index(learner) if learner in members else -1
        named.append(Chain(chain.epoch, tuple(nodes[member][0] for member in members), place, chain.lost))
        if len(packed) % 2:
            raise Error("the map has a list of shards that ends within a number")
        for at in range(0, len(packed), 2):
            shard = int.from_bytes(packed[at : at + 2], "big")
            if shard >= shards or by_shard[shard] != -1:
                raise Error(f"the map has shard {shard} twice, or it does not exist")
            by_shard[shard] = i
    tags = phase if TAGS_OFF < phase <= TAGS_REQUIRED else TAGS_REQUIRED if required else TAGS_OFF
    m = Map(version, cluster, {name: address(addr) for name, addr, _ in nodes.values()}, tuple(named), tuple(by_shard),
            tuple(controllers), tuple(api or f"{addr.rpartition(':')[0]}:{AGENT_PORT}" for _, addr, api in nodes.values()),
            tags)
    if len(m.nodes) != len(nodes) or "" in m.nodes:
        raise Error("the map has two nodes of one name, or one without")
    m.check()
    return m


def _decode_node(message: bytes) -> tuple[int, tuple[str, str, str]]:
    node, texts = 0, {2: "", 3: "", 4: ""}
    for number, value in fields(message):
        if number == 1:
            node = integer(value)
        elif number in texts:
            texts[number] = text_of(value)
    return node, (texts[2], texts[3], texts[4])


def _decode_chain(message: bytes) -> tuple[Chain, list[int], int, bytes]:
    epoch = learner = lost = 0
    members: list[int] = []
    packed = b""
    for number, value in fields(message):
        if number == 1:
            epoch = integer(value)
        elif number == 2 and isinstance(value, int):
            members.append(value)
        elif number == 2:
            at, inside = 0, octets(value)
            while at < len(inside):
                member, at = _varint(inside, at)
                members.append(member)
        elif number == 3:
            learner = integer(value)
        elif number == 4:
            lost = integer(value)
        elif number == 5:
            packed = octets(value)
    return Chain(epoch, (), lost=bool(lost)), members, learner, packed


def fields(message: bytes) -> list[tuple[int, int | bytes]]:
    """Splits a message of Protocol Buffers into the numbers of its fields and their values."""
    found: list[tuple[int, int | bytes]] = []
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 0:
            number, at = _varint(message, at)
            found.append((tag >> 3, number))
            continue
        if kind == 2:
            length, at = _varint(message, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise Error(f"a field of kind {kind} cannot be read")
        if length > len(message) - at:
            raise Error("a message ends within a field")
        found.append((tag >> 3, message[at : at + length]))
        at += length
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        value |= (message[at] & 0x7F) << shift
        if message[at] < 0x80:
            return value & (1 << 64) - 1, at + 1
        at, shift = at + 1, shift + 7
    raise Error("a message ends within a number")


def integer(value: int | bytes) -> int:
    if isinstance(value, int):
        return value
    raise Error("a field is no number")


def octets(value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    raise Error("a field is no text")


def text_of(value: int | bytes) -> str:
    try:
        return octets(value).decode()
    except UnicodeDecodeError as e:
        raise Error("a text is not UTF-8") from e


@dataclass(frozen=True, eq=False)
class Route:
    """The way to a chain in one epoch."""

    epoch: int
    members: tuple[Member, ...]
    serving: int  # those that answer reads: one bit for each place
    lost: bool

    def same(self, other: Route) -> bool:
        return (self.epoch, self.serving) == (other.epoch, other.serving) and self.members == other.members

    def place(self, addr: Address) -> int:
        for i, member in enumerate(self.members):
            if member.addr == addr:
                return i
        return -1


class View:
    """A map made ready for use. It does not change."""

    map: Map

    def __init__(self, m: Map, before: View | None = None) -> None:
        m.check()
        if before is not None:
            _follows(m, before.map)
        self.map = m
        self.nodes: dict[str, Member] = {}
        for name, addr in m.nodes.items():
            old = before.nodes.get(name) if before is not None else None
            self.nodes[name] = old if old is not None and old.addr == addr else Member(name, addr)
        self.routes = tuple(
            Route(
                chain.epoch,
                tuple(self.nodes[name] for name in chain.members),
                sum(1 << place for place in range(len(chain.members)) if place != chain.learner),
                chain.lost,
            )
            for chain in m.chains
        )

    def shard(self, key: Key) -> int:
        return key.lo & (len(self.map.by_shard) - 1)

    def route(self, shard: int) -> Route:
        return self.routes[self.map.by_shard[shard]]


def _follows(now: Map, old: Map) -> None:
    """Raises an error if a map cannot follow another one: epochs that go back would give refusals another meaning."""
    if now.version <= old.version:
        raise Error("the map is not newer")
    if old.cluster and now.cluster != old.cluster:
        raise Error(f"this is cluster {now.cluster!r}, and the client was made for {old.cluster!r}")
    if len(now.by_shard) != len(old.by_shard):
        raise Error("the cluster has another number of shards now")
    for shard, chain in enumerate(now.by_shard):
        if now.chains[chain].epoch < old.chains[old.by_shard[shard]].epoch:
            raise Error(f"the epoch of shard {shard} went back")
