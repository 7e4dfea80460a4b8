'use strict';
const assert = require('node:assert/strict');
const { use } = require('../client');

describe('cluster', () => {
  const given = use();

  it('lists its members and its leader', async () => {
    const { etcd } = given;
    const { members } = await etcd.cluster.memberList({});
    const status = await etcd.maintenance.status({});
    assert.ok(members.some(member => member.ID === status.leader));
    assert.match(status.version, /^3\./);
    assert.ok(BigInt(status.header.revision) > 0n);
  });

  it('compacts', async () => {
    const { etcd } = given;
    const { header } = await etcd.put('k').value('1');
    const second = await etcd.put('k').value('2');
    await etcd.kv.compact({ revision: second.header.revision, physical: true });
    await assert.rejects(etcd.get('k').revision(header.revision).exec(), /compacted/);
    assert.equal(await etcd.get('k').string(), '2');
  });

  it('has no alarms', async () => {
    const { alarms } = await given.etcd.maintenance.alarm({ action: 'Get' });
    assert.deepEqual(alarms, []);
  });
});
