"""Configuration: a program reads its settings and hears of every change. `config.py HOST:PORT`"""

import asyncio
import sys

import aetcd


async def main(host: str, port: str) -> None:
    async with aetcd.Client(host, int(port)) as client:
        await client.put(b"config/colour", b"blue")
        now = await client.get_prefix(b"config/")
        settings = {kv.key: kv.value for kv in now}
        watch = await client.watch_prefix(b"config/", start_revision=now.header.revision + 1)
        await client.put(b"config/colour", b"green")  # as another program does
        async for event in watch:
            settings[event.kv.key] = event.kv.value
            break
        await watch.cancel()
        print(settings)


asyncio.run(main(*sys.argv[1].split(":")))
