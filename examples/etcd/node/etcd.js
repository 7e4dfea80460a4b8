// Configuration, presence, a lock, an election and a counter: `node etcd.js HOST:PORT TASK`
'use strict';
const { Etcd3 } = require('etcd3');

const [address, task] = process.argv.slice(2);
const client = new Etcd3({ hosts: `http://${address}` });

const tasks = {
  async config() {
    await client.put('config/colour').value('blue');
    const settings = await client.getAll().prefix('config/').strings();
    const watcher = await client.watch().prefix('config/').create();
    const changed = new Promise(resolve => watcher.once('put', resolve));
    await client.put('config/colour').value('green'); // as another program does
    const change = await changed;
    settings[change.key.toString()] = change.value.toString();
    await watcher.cancel();
    return settings;
  },

  async presence() {
    const lease = client.lease(2); // it is kept alive
    await lease.put('online/alice').value('');
    const online = await client.getAll().prefix('online/').keys();
    const watcher = await client.watch().prefix('online/').create();
    const left = new Promise(resolve => watcher.once('delete', resolve));
    lease.release(); // as if the program had ended
    const gone = (await left).key.toString();
    await watcher.cancel();
    return [online, gone];
  },

  async lock() {
    await client.delete().key('account');
    const work = async () => {
      for (;;) {
        const lock = client.lock('lock/account').ttl(30);
        try {
          await lock.acquire();
        } catch {
          continue; // somebody else has it
        }
        const balance = Number(await client.get('account').string() ?? 0);
        await client.put('account').value(balance + 1);
        return lock.release();
      }
    };
    await Promise.all(Array.from({ length: 5 }, work));
    return client.get('account').number();
  },

  async election() {
    const election = client.election('leader', 10);
    const campaign = name => new Promise((resolve, reject) => {
      const candidate = election.campaign(name);
      candidate.on('elected', () => resolve(candidate)).on('error', reject);
    });
    const leaders = [];
    const alice = await campaign('alice');
    const next = campaign('bob');
    leaders.push(await election.leader());
    await alice.resign();
    const bob = await next;
    leaders.push(await election.leader());
    await bob.resign();
    return leaders;
  },

  async counter() {
    await client.delete().key('visits');
    const count = async () => {
      for (;;) {
        const found = await client.get('visits').exec();
        const before = found.kvs.length ? Number(found.kvs[0].value.toString()) : 0;
        const revision = found.kvs.length ? found.kvs[0].mod_revision : 0;
        const done = await client.if('visits', 'Mod', '==', revision)
          .then(client.put('visits').value(before + 1)).commit();
        if (done.succeeded) return before + 1;
      }
    };
    const sums = await Promise.all(Array.from({ length: 10 }, count));
    return sums.sort((a, b) => a - b);
  },
};

tasks[task]().then(result => {
  console.log(JSON.stringify(result));
  client.close();
});
