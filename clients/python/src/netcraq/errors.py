"""The errors of operations. All are an :class:`Error`."""

from __future__ import annotations


class Error(Exception):
    """An operation failed, or the client could not be made."""


class NotFound(Error):
    """There is no such key. ``version`` is that of its deletion, or 0."""

    def __init__(self, key: bytes, version: int) -> None:
        super().__init__(f"{key!r}: not found")
        self.version = version


class CASFailed(Error):
    """The version was not the expected one.

    ``version`` is the key's (0: never written) and ``value`` its value, which is None if another write has replaced it
    since.
    """

    def __init__(self, expected: int, version: int, value: bytes | None) -> None:
        found = f"it is {version}" if version else "the key was never written"
        super().__init__(f"version {expected} expected, but {found}")
        self.expected, self.version, self.value = expected, version, value


class OutcomeUnknown(Error):
    """The write may have happened, may happen later, or never. ``cause`` is the last obstacle."""

    def __init__(self, cause: Error) -> None:
        super().__init__(f"outcome unknown, the write may or may not take effect: {cause}")
        self.cause = cause


class Timeout(Error, TimeoutError):
    """No answer in time."""


class Busy(Error):
    """A write of the key was under way, or the nodes may not answer, for as long as the operation lasted."""


class Unsent(Error, OSError):
    """The system did not send the message."""


class Full(Error):
    """A node has no room for another object or session: the write has no effect, unless its outcome is unknown."""


class TooLarge(Error, ValueError):
    """The value is longer than a message or than the node's cells."""


class NotCounter(Error, TypeError):
    """``add`` of a key whose value does not have 8 bytes."""


class BadRequest(Error, ValueError):
    """The arguments, or the message as the node received it, break a rule."""


class NotMine(Error):
    """The node does not serve the key in the client's map: use the cluster's own file."""

    def __init__(self, node: str, shard: int, ours: int, theirs: int) -> None:
        super().__init__(
            f"the cluster file does not match the cluster: for shard {shard} it has epoch {ours}, node {node} has "
            f"{theirs or 'none'}: use the cluster's own file, or wait if the node is starting"
        )
        self.node, self.shard, self.client_epoch, self.node_epoch = node, shard, ours, theirs


class OtherEpoch(Error):
    """The shard is not in the epoch that the write was restricted to."""


class NoChain(Error):
    """No node serves the key."""


class Denied(Error, PermissionError):
    """The client's identity may not do this: use one with another role."""


class Closed(Error):
    """The client was closed."""
