"""Numbers, keys and files that the client cannot use: each error says which, and what would be right."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import netcraq
import netcraq.aio


class Misuse(unittest.TestCase):
    def test_numbers(self) -> None:
        """Numbers that do not fit are no other numbers."""
        with netcraq.Client() as client:
            client.add("visits", 1)
            for delta in (1 << 63, -(1 << 63) - 1, 1 << 64):
                with self.assertRaisesRegex(netcraq.BadRequest, "add 'visits': .* is not a whole number of 64 bits"):
                    client.add("visits", delta)
            for version in (-1, 1 << 64):
                with self.assertRaisesRegex(netcraq.BadRequest, "cas 'visits': .* is not a version"):
                    client.cas("visits", version, "x")
            self.assertEqual(client.add("visits", 1), 2)

    def test_numbers_of_asyncio(self) -> None:
        async def add() -> None:
            async with await netcraq.aio.Client.open() as client:
                await client.add("aio", 1 << 63)

        with self.assertRaises(netcraq.BadRequest):
            asyncio.run(add())

    def test_absent_key(self) -> None:
        with netcraq.Client() as client, self.assertRaisesRegex(netcraq.NotFound, "^b'nobody': not found$"):
            client.get("nobody")

    def test_file_of_another_program(self) -> None:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("root:x:0:0\nnobody\n")
            file.flush()
            with self.assertRaises(netcraq.Error) as raised:
                netcraq.Client(cluster=file.name)
            self.assertNotIn("ValueError", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
