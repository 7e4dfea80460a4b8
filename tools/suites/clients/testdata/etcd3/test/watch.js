'use strict';
const assert = require('node:assert/strict');
const { collect, once, use } = require('../client');

describe('watches', () => {
  const given = use();
  afterEach(() => given.watcher?.cancel());

  it('see what happens to a key', async () => {
    const { etcd } = given;
    given.watcher = await etcd.watch().key('k').create();
    const next = collect(given.watcher, 'put', 'delete');
    await etcd.put('other').value('0');
    await etcd.put('k').value('1');
    await etcd.put('k').value('2');
    await etcd.delete().key('k');
    assert.deepEqual(await next(3), [['put', 'k', '1'], ['put', 'k', '2'], ['delete', 'k', '']]);
  });

  it('see a prefix, in order, and transactions whole', async () => {
    const { etcd } = given;
    given.watcher = await etcd.watch().prefix('p/').create();
    const next = collect(given.watcher, 'put', 'delete');
    await etcd.if('p/1', 'Version', '==', 0).then(etcd.put('p/1').value('a'), etcd.put('p/2').value('b')).commit();
    await etcd.delete().prefix('p/');
    assert.deepEqual(await next(4),
      [['put', 'p/1', 'a'], ['put', 'p/2', 'b'], ['delete', 'p/1', ''], ['delete', 'p/2', '']]);
  });

  it('begin at an earlier revision', async () => {
    const { etcd } = given;
    const { header } = await etcd.put('k').value('1');
    await etcd.put('k').value('2');
    given.watcher = await etcd.watch().key('k').startRevision(header.revision).create();
    const next = collect(given.watcher, 'put');
    await etcd.put('k').value('3');
    assert.deepEqual(await next(3), [['put', 'k', '1'], ['put', 'k', '2'], ['put', 'k', '3']]);
  });

  it('leave out kinds of events, and give previous values', async () => {
    const { etcd } = given;
    await etcd.put('k').value('old');
    given.watcher = await etcd.watch().key('k').only('delete').withPreviousKV().create();
    const deleted = once(given.watcher, 'delete');
    await etcd.put('k').value('new');
    await etcd.delete().key('k');
    const [, previous] = await deleted;
    assert.equal(previous.value.toString(), 'new');
  });

  it('share a stream, and end alone', async () => {
    const { etcd } = given;
    const first = await etcd.watch().key('a').create();
    given.watcher = await etcd.watch().key('b').create();
    const next = collect(given.watcher, 'put');
    await first.cancel();
    await etcd.put('a').value('1');
    await etcd.put('b').value('2');
    assert.deepEqual(await next(1), [['put', 'b', '2']]);
  });
});
