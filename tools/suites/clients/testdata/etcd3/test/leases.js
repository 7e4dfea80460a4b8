'use strict';
const assert = require('node:assert/strict');
const { EtcdLockFailedError } = require('etcd3');
const { collect, once, use } = require('../client');

describe('leases', () => {
  const given = use();

  it('take their keys along when they are revoked', async () => {
    const { etcd } = given;
    const lease = etcd.lease(60);
    const id = await lease.grant();
    await lease.put('a').value('1');
    await etcd.put('b').value('2').lease(id);
    assert.equal((await etcd.get('a').exec()).kvs[0].lease, id);
    const { keys } = await etcd.leaseClient.leaseTimeToLive({ ID: id, keys: true });
    assert.deepEqual(keys.map(String).sort(), ['a', 'b']);
    const watcher = await etcd.watch().prefix('').create();
    const next = collect(watcher, 'delete');
    await lease.revoke();
    assert.deepEqual((await next(2)).map(([, key]) => key).sort(), ['a', 'b']);
    assert.equal(await etcd.getAll().count(), 0);
    await watcher.cancel();
  });

  it('run out, and are missed', async () => {
    const { etcd } = given;
    const lease = etcd.lease(1, { autoKeepAlive: false });
    await lease.put('k').value('1');
    const watcher = await etcd.watch().key('k').create();
    const deleted = once(watcher, 'delete');
    if (await etcd.get('k').exists()) await deleted;
    assert.equal(await etcd.get('k').string(), null);
    await watcher.cancel();
  });

  it('are renewed', async () => {
    const { etcd } = given;
    const lease = etcd.lease(60);
    const id = await lease.grant();
    assert.equal((await lease.keepaliveOnce()).TTL, '60');
    const { leases } = await etcd.leaseClient.leaseLeases({});
    assert.ok(leases.some(one => one.ID === id));
    await lease.revoke();
    await assert.rejects(lease.keepaliveOnce());
  });

  it('say when they are lost', async () => {
    const { etcd } = given;
    const lease = etcd.lease(1);
    const id = await lease.grant();
    const lost = once(lease, 'lost');
    await etcd.leaseClient.leaseRevoke({ ID: id });
    await lost;
    assert.ok(lease.revoked());
  });
});

describe('locks', () => {
  const given = use();

  it('have one holder', async () => {
    const { etcd } = given;
    let inside = 0;
    let entered = 0;
    await Promise.all(Array.from({ length: 5 }, async () => {
      for (;;) {
        try {
          return await etcd.lock('l').ttl(30).do(async () => {
            assert.equal(++inside, 1);
            await etcd.put('held').value(++entered);
            assert.equal(await etcd.get('held').number(), entered);
            inside--;
          });
        } catch (err) {
          if (!(err instanceof EtcdLockFailedError)) throw err;
        }
      }
    }));
    assert.equal(entered, 5);
  });

  it('are refused while they are held', async () => {
    const { etcd } = given;
    const held = await etcd.lock('l').ttl(30).acquire();
    await assert.rejects(etcd.lock('l').acquire(), EtcdLockFailedError);
    await held.release();
    const next = await etcd.lock('l').acquire();
    await next.release();
  });
});

describe('elections', () => {
  const given = use();

  it('have one leader at a time', async () => {
    const { etcd } = given;
    const election = etcd.election('e', 30);
    assert.equal(await election.leader(), undefined);
    const first = await election.campaign('one').wait();
    assert.equal(await election.leader(), 'one');
    const second = election.campaign('two');
    await second.getCampaignKey();
    assert.equal(await election.leader(), 'one');
    await first.proclaim('one again');
    assert.equal(await election.leader(), 'one again');
    await first.resign();
    await second.wait();
    assert.equal(await election.leader(), 'two');
    await second.resign();
  });

  it('are observed', async () => {
    const { etcd } = given;
    const election = etcd.election('e', 30);
    const observer = await election.observe();
    const changes = [];
    observer.on('change', leader => changes.push(leader));
    const change = async leader => {
      while (changes.at(-1) !== leader) await once(observer, 'change');
    };
    const campaign = await election.campaign('one').wait();
    await change('one');
    await campaign.proclaim('two');
    await change('two');
    await campaign.resign();
    await change(undefined);
    await observer.cancel();
  });
});
