"""Numbers, keys and files that the client cannot use: each error says which, and what would be right."""

from __future__ import annotations

import asyncio
import os
import re
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

    def test_controllers_that_are_away(self) -> None:
        """The error names each address, what is wrong with it, and how others are named."""
        with self.assertRaises(netcraq.Timeout) as raised:
            netcraq.Client(controllers=["127.0.0.1:1", "nowhere.invalid"], timeout=2)
        for part in ("127.0.0.1:1: nothing answers there: is it running?", "nowhere.invalid:4413: the name has no address",
                     "NETCRAQ_CONTROLLERS"):
            self.assertIn(part, str(raised.exception))
        self.assertNotIn("Errno", str(raised.exception))

    def test_message_that_is_not_sent(self) -> None:
        """The error names the node and the reason: the system sends nothing from a loopback address to another network."""
        text = Path(os.environ["NETCRAQ_CLUSTER"]).read_text(encoding="utf-8")
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(re.sub(r"127\.\d+\.\d+\.(\d+):", r"192.0.2.\1:", text))
            file.flush()
            with netcraq.Client(cluster=file.name, local="127.0.0.1", timeout=0.2) as client:
                with self.assertRaisesRegex(netcraq.Error, "the message to n[1-3] was not sent: Invalid argument") as raised:
                    client.get("a")
                self.assertNotIn("Errno", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
