"""A lock: one holder at a time, and none for longer than its lease if it dies. `lock.py HOST:PORT`"""

import asyncio
import sys

import aetcd


async def work(client: aetcd.Client) -> None:
    async with client.lock(b"lock/account", ttl=30):
        found = await client.get(b"account")
        balance = int(found.value) if found else 0
        await client.put(b"account", str(balance + 1).encode())


async def main(host: str, port: str) -> None:
    async with aetcd.Client(host, int(port)) as client:
        await client.delete(b"account")
        await asyncio.gather(*(work(client) for _ in range(5)))
        print((await client.get(b"account")).value)


asyncio.run(main(*sys.argv[1].split(":")))
