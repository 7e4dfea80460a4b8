"""Executes the operations of clients/conformance: one a line of standard input, one result a line of output, as JSON.

With the argument "aio", by the client for asyncio.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import netcraq
import netcraq.aio

_NAMES = {
    netcraq.NotFound: "not_found", netcraq.CASFailed: "cas_failed", netcraq.OutcomeUnknown: "outcome_unknown",
    netcraq.Busy: "busy", netcraq.Timeout: "timeout", netcraq.Full: "full", netcraq.TooLarge: "too_large",
    netcraq.NotCounter: "not_counter", netcraq.BadRequest: "bad_request", netcraq.NotMine: "not_mine",
    netcraq.OtherEpoch: "other_epoch", netcraq.NoChain: "no_chain", netcraq.Denied: "denied",
}


def names(error: BaseException | None) -> list[str]:
    """Lists the kinds of an error and of its causes."""
    found = []
    while isinstance(error, netcraq.Error):
        found.append(_NAMES.get(type(error), "error"))
        error = error.cause if isinstance(error, netcraq.OutcomeUnknown) else error.__cause__
    return found


def failure(error: netcraq.Error) -> dict[str, Any]:
    out: dict[str, Any] = {"errors": names(error), "text": str(error)}
    if isinstance(error, netcraq.NotFound):
        out["version"] = error.version
    if isinstance(error, netcraq.CASFailed):
        out |= {"version": error.version, "value": (error.value or b"").hex(), "value_unknown": error.value is None}
    return out


def success(result: netcraq.Result | int) -> dict[str, Any]:
    if isinstance(result, int):
        return {"counter": result}
    return {
        "value": result.value.hex(), "version": result.version, "node": result.node, "epoch": result.epoch,
        "attempts": result.attempts,
    }


def lines() -> Iterator[tuple[str, dict[str, str]]]:
    """Reads the lines: a word, then words of the form name=value."""
    for line in sys.stdin:
        word, *rest = line.split()
        yield word, dict(each.split("=", 1) for each in rest)


def opening(given: dict[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {"timeout": float(given["timeout"]) / 1000, "attempt": float(given["attempt"]) / 1000}
    if "cluster" in given:
        options["cluster"] = given["cluster"]
    if "controllers" in given:
        options |= {"controllers": given["controllers"].split(","), "identity": given.get("identity", "")}
    return options


def start(client: Any, word: str, given: dict[str, str]) -> Any:
    """Calls the method of an operation."""
    key, value = bytes.fromhex(given["key"]), bytes.fromhex(given.get("value", ""))
    options: dict[str, Any] = {}
    if "timeout" in given:
        options["timeout"] = float(given["timeout"]) / 1000
    if word == "get":
        if "from" in given:
            options["read_from"] = given["from"]
        if "bounded" in given:
            options["bounded"] = float(given["bounded"]) / 1000
        return client.get(key, any="any" in given, **options)
    if "epoch" in given:
        options["in_epoch"] = int(given["epoch"])
    if word == "put":
        return client.put(key, value, **options)
    if word == "delete":
        return client.delete(key, **options)
    if word == "cas":
        return client.cas(key, int(given["expected"]), value, **options)
    return client.add(key, int(given["delta"]), **options)


def say(out: dict[str, Any]) -> None:
    print(json.dumps(out), flush=True)


def blocking() -> None:
    client: netcraq.Client | None = None
    for word, given in lines():
        try:
            if word == "open":
                client = netcraq.Client(**opening(given))
                say({})
            else:
                say(success(start(client, word, given)))
        except netcraq.Error as e:
            say(failure(e))
    if client is not None:
        client.close()


async def asynchronous() -> None:
    client: netcraq.aio.Client | None = None
    each = iter(lines())
    while (line := await asyncio.to_thread(next, each, None)) is not None:
        word, given = line
        try:
            if word == "open":
                client = await netcraq.aio.Client.open(**opening(given))
                say({})
            else:
                say(success(await start(client, word, given)))
        except netcraq.Error as e:
            say(failure(e))
    if client is not None:
        await client.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["aio"]:
        asyncio.run(asynchronous())
    else:
        blocking()
