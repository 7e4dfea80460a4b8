'use strict';
const assert = require('node:assert/strict');
const { use } = require('../client');

describe('kv', () => {
  const given = use();

  it('reads what it wrote, again and again', async () => {
    const { etcd } = given;
    assert.equal(await etcd.get('k').string(), null);
    for (let n = 0; n < 20; n++) {
      await etcd.put('k').value(n);
      for (let i = 0; i < 3; i++) assert.equal(await etcd.get('k').number(), n);
    }
    await etcd.delete().key('k');
    assert.equal(await etcd.get('k').exists(), false);
  });

  it('keeps bytes', async () => {
    const { etcd } = given;
    const key = Buffer.from([0, 255, 1]);
    const value = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    await etcd.put(key).value(value);
    assert.deepEqual(await etcd.get(key).buffer(), value);
    await etcd.put('empty').value('');
    assert.equal(await etcd.get('empty').string(), '');
  });

  it('counts revisions and versions', async () => {
    const { etcd } = given;
    const first = await etcd.put('k').value('1');
    const second = await etcd.put('k').value('2').getPrevious();
    assert.equal(second.value.toString(), '1');
    const { kvs: [kv], header } = await etcd.get('k').exec();
    assert.equal(kv.create_revision, first.header.revision);
    assert.equal(kv.version, '2');
    assert.ok(BigInt(kv.mod_revision) > BigInt(kv.create_revision));
    assert.ok(BigInt(header.revision) >= BigInt(kv.mod_revision));
    assert.equal(await etcd.get('k').revision(first.header.revision).string(), '1');
  });

  it('reads ranges', async () => {
    const { etcd } = given;
    for (const key of ['a', 'b/1', 'b/2', 'b/3', 'c']) await etcd.put(key).value(key.toUpperCase());
    assert.deepEqual(await etcd.getAll().prefix('b/').strings(), { 'b/1': 'B/1', 'b/2': 'B/2', 'b/3': 'B/3' });
    assert.deepEqual(await etcd.getAll().prefix('b/').sort('Key', 'Descend').limit(2).keys(), ['b/3', 'b/2']);
    assert.deepEqual(await etcd.getAll().inRange({ start: 'a', end: 'b/2' }).keys(), ['a', 'b/1']);
    assert.equal(await etcd.getAll().count(), 5);
    await etcd.put('a').value('last');
    assert.deepEqual((await etcd.getAll().sort('Mod', 'Descend').limit(1).keys()), ['a']);
    assert.deepEqual((await etcd.getAll().sort('Value', 'Ascend').keys()), ['b/1', 'b/2', 'b/3', 'c', 'a']);
  });

  it('deletes ranges', async () => {
    const { etcd } = given;
    for (let n = 0; n < 150; n++) await etcd.put(`d/${n}`).value(n);
    for (let n = 0; n < 150; n++) await etcd.get(`d/${n}`);
    const previous = await etcd.delete().inRange({ start: 'd/1', end: 'd/11' }).getPrevious();
    assert.deepEqual(previous.map(kv => kv.key.toString()).sort(), ['d/1', 'd/10', 'd/100', 'd/101', 'd/102', 'd/103',
      'd/104', 'd/105', 'd/106', 'd/107', 'd/108', 'd/109']);
    assert.equal((await etcd.delete().prefix('d/')).deleted, '138');
    assert.equal(await etcd.getAll().count(), 0);
  });
});

describe('namespaces', () => {
  const given = use();

  it('have their own keys', async () => {
    const { etcd } = given;
    const one = etcd.namespace('one/');
    const nested = one.namespace('two/');
    await etcd.put('k').value('0');
    await one.put('k').value('1');
    await nested.put('k').value('2');
    assert.deepEqual(await etcd.getAll().strings(), { k: '0', 'one/k': '1', 'one/two/k': '2' });
    assert.deepEqual(await one.getAll().strings(), { k: '1', 'two/k': '2' });
    assert.equal(await nested.get('k'), '2');
    await one.delete().all();
    assert.deepEqual(await etcd.getAll().keys(), ['k']);
  });
});
