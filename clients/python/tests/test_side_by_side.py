"""Many operations at once, on the cluster that NETCRAQ_CLUSTER names: threads, a forked child, tasks."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import netcraq
import netcraq.aio

_PLENTY = 60.0


class SideBySide(unittest.TestCase):
    def test_threads(self) -> None:
        sums: list[int] = []
        with netcraq.Client(timeout=_PLENTY) as client:

            def add() -> None:
                for _ in range(25):
                    sums.append(client.add("threads", 1))

            threads = [threading.Thread(target=add) for _ in range(8)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
        self.assertEqual(sorted(sums), list(range(1, 201)))

    def test_fork(self) -> None:
        """A child must not use a session of its parent: its write would count as a repetition of the parent's."""
        with netcraq.Client(timeout=_PLENTY) as client:
            self.assertEqual(client.add("fork", 1), 1)
            child = os.fork()
            if child == 0:
                try:
                    os._exit(client.add("fork", 1))
                finally:
                    os._exit(99)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 2)
            self.assertEqual(client.add("fork", 1), 3)

    def test_tasks(self) -> None:
        async def run() -> list[int]:
            async with await netcraq.aio.Client.open(timeout=_PLENTY, window=32) as client:
                sums = await asyncio.gather(*(client.add("tasks", 1) for _ in range(300)))
                await asyncio.gather(*(client.put(f"k{i}", f"v{i}") for i in range(100)))
                values = await asyncio.gather(*(client.get(f"k{i}") for i in range(100)))
                assert [v.value for v in values] == [f"v{i}".encode() for i in range(100)]
                return list(sums)

        self.assertEqual(sorted(asyncio.run(run())), list(range(1, 301)))

    def test_cancelled(self) -> None:
        """A later write must not use the session of a cancelled write, which may still happen at any time."""

        async def run() -> list[int]:
            async with await netcraq.aio.Client.open(timeout=_PLENTY) as client:
                sums = []
                for _ in range(20):
                    task = asyncio.create_task(client.add("cancelled", 1000))
                    await asyncio.sleep(0)
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                    sums.append(await client.add("cancelled", 1))
                return sums

        self.assertEqual([each % 1000 for each in asyncio.run(run())], list(range(1, 21)))

    def test_closed(self) -> None:
        client = netcraq.Client(timeout=_PLENTY)
        client.close()
        with self.assertRaises(netcraq.Closed):
            client.get("k")


if __name__ == "__main__":
    unittest.main()
