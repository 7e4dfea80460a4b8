"""The fixture that etcetra's tests use, a client and an empty store. Its packages have the tests without it."""

import pytest

from etcetra import EtcdClient, HostPortPair


async def delete_all(etcd):
    async with etcd.connect() as communicator:
        await communicator.delete_prefix('/')


@pytest.fixture
async def etcd():
    client = EtcdClient(HostPortPair('127.0.0.1', 2379))
    await delete_all(client)
    yield client
    await delete_all(client)
