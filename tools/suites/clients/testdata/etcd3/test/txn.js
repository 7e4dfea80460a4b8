'use strict';
const assert = require('node:assert/strict');
const { STMConflictError } = require('etcd3');
const { use } = require('../client');

describe('transactions', () => {
  const given = use();

  it('take one branch', async () => {
    const { etcd } = given;
    await etcd.put('k').value('1');
    for (const expected of [true, false]) {
      const answer = await etcd.if('k', 'Value', '==', '1')
        .then(etcd.put('k').value('2'), etcd.get('k'))
        .else(etcd.get('k'))
        .commit();
      assert.equal(answer.succeeded, expected);
      const read = answer.responses[expected ? 1 : 0].response_range;
      assert.equal(read.kvs[0].value.toString(), '2');
    }
  });

  it('compare all that keys have', async () => {
    const { etcd } = given;
    const { header } = await etcd.put('k').value('m');
    const conditions = [
      ['Value', '==', 'm', true], ['Value', '<', 'n', true], ['Value', '>', 'n', false], ['Value', '!=', 'm', false],
      ['Version', '==', 1, true], ['Version', '>', 1, false], ['Create', '==', header.revision, true],
      ['Mod', '<', header.revision, false], ['Lease', '==', 0, true],
    ];
    for (const [column, operator, operand, expected] of conditions) {
      const answer = await etcd.if('k', column, operator, operand).commit();
      assert.equal(answer.succeeded, expected, `${column} ${operator} ${operand}`);
    }
    const both = await etcd.if('k', 'Value', '==', 'm').and('k', 'Version', '==', 2).commit();
    assert.equal(both.succeeded, false);
  });

  it('create a key once', async () => {
    const { etcd } = given;
    const create = n => etcd.if('k', 'Create', '==', 0).then(etcd.put('k').value(n)).commit();
    const answers = await Promise.all(Array.from({ length: 16 }, (_, n) => create(n)));
    const winners = answers.flatMap((answer, n) => (answer.succeeded ? [n] : []));
    assert.equal(winners.length, 1);
    assert.equal(await etcd.get('k').number(), winners[0]);
  });

  it('write and delete many keys at once', async () => {
    const { etcd } = given;
    const keys = Array.from({ length: 128 }, (_, n) => `many/${n}`);
    for (let round = 0; round < 3; round++) {
      await etcd.if('absent', 'Version', '==', 0).then(...keys.map(key => etcd.put(key).value(round))).commit();
      for (const key of keys) assert.equal(await etcd.get(key).number(), round);
    }
    await etcd.if('absent', 'Version', '==', 0).then(...keys.map(key => etcd.delete().key(key))).commit();
    assert.equal(await etcd.getAll().prefix('many/').count(), 0);
  });

  it('refuse one key twice', async () => {
    const { etcd } = given;
    const twice = etcd.if('k', 'Version', '==', 0).then(etcd.put('k').value(1), etcd.put('k').value(2)).commit();
    await assert.rejects(twice, /duplicate key/);
  });
});

describe('software transactions', () => {
  const given = use();

  for (const [name, isolation] of [['serializable snapshot', 0], ['serializable', 1], ['repeatable reads', 2]]) {
    it(`count together: ${name}`, async () => {
      const { etcd } = given;
      await etcd.put('n').value(0);
      const increment = () => etcd.stm({ isolation, retries: 100 }).transact(async tx => {
        await tx.put('n').value(await tx.get('n').number() + 1);
      });
      await Promise.all(Array.from({ length: 6 }, async () => {
        for (let i = 0; i < 5; i++) await increment();
      }));
      assert.equal(await etcd.get('n').number(), 30);
    });
  }

  it('give up after their retries', async () => {
    const { etcd } = given;
    await etcd.put('n').value(0);
    const hopeless = etcd.stm({ retries: 0 }).transact(async tx => {
      await tx.get('n');
      await etcd.put('n').value(1);
      await tx.put('n').value(2);
    });
    await assert.rejects(hopeless, STMConflictError);
    assert.equal(await etcd.get('n').number(), 1);
  });
});
