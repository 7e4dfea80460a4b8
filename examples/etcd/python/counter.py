"""A counter: a transaction that succeeds only if nobody else counted meanwhile. `counter.py HOST:PORT`"""

import asyncio
import sys

import aetcd

KEY = b"visits"


async def count(client: aetcd.Client) -> int:
    t = client.transactions
    while True:
        found = await client.get(KEY)
        before = int(found.value) if found else 0
        same = t.mod(KEY) == found.mod_revision if found else t.create(KEY) == 0
        done, _ = await client.transaction(compare=[same], success=[t.put(KEY, str(before + 1).encode())], failure=[])
        if done:
            return before + 1


async def main(host: str, port: str) -> None:
    async with aetcd.Client(host, int(port)) as client:
        await client.delete(KEY)
        sums = await asyncio.gather(*(count(client) for _ in range(10)))
        print(sorted(sums))


asyncio.run(main(*sys.argv[1].split(":")))
