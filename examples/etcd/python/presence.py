"""Presence: a key lives as long as the program that keeps its lease alive. `presence.py HOST:PORT`"""

import asyncio
import sys

import aetcd


async def keep_alive(lease: aetcd.Lease) -> None:
    while True:
        await asyncio.sleep(lease.ttl / 3)
        await lease.refresh()


async def main(host: str, port: str) -> None:
    async with aetcd.Client(host, int(port)) as client:
        lease = await client.lease(2)
        put = await client.put(b"online/alice", b"", lease)
        alive = asyncio.create_task(keep_alive(lease))
        print([kv.key for kv in await client.get_prefix(b"online/")])
        alive.cancel()  # as if the program had ended
        gone = await client.watch_prefix_once(
            b"online/", timeout=60, start_revision=put.header.revision + 1, kind=aetcd.EventKind.DELETE
        )
        print(gone.kv.key, "left")


asyncio.run(main(*sys.argv[1].split(":")))
