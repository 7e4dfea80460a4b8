"""An election: the candidate whose key exists leads, until it resigns or its lease ends. `election.py HOST:PORT`"""

import asyncio
import sys

import aetcd

KEY = b"leader"


async def campaign(client: aetcd.Client, name: bytes) -> aetcd.Lease:
    """Returns when this candidate leads, with the lease to keep alive meanwhile."""
    lease = await client.lease(10)
    t = client.transactions
    while True:
        won, answers = await client.transaction(
            compare=[t.create(KEY) == 0], success=[t.put(KEY, name, lease)], failure=[t.get(KEY)]
        )
        if won:
            return lease
        leader = answers[0][0][1]
        try:
            await client.watch_once(
                KEY, timeout=3, start_revision=leader.mod_revision + 1, kind=aetcd.EventKind.DELETE
            )
        except aetcd.WatchTimeoutError:
            await lease.refresh()


async def main(host: str, port: str) -> None:
    async with aetcd.Client(host, int(port)) as client:
        alice = await campaign(client, b"alice")
        bob = asyncio.create_task(campaign(client, b"bob"))
        print((await client.get(KEY)).value, "leads")
        await alice.revoke()  # she resigns
        lease = await bob
        print((await client.get(KEY)).value, "leads")
        await lease.revoke()


asyncio.run(main(*sys.argv[1].split(":")))
