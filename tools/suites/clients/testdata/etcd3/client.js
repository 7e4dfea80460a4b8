'use strict';
// What the tests share: a client, and events of its emitters as promises.
const { EventEmitter, once } = require('node:events');
const { Etcd3 } = require('etcd3');

const hosts = 'http://127.0.0.1:2379';

// use gives the tests of a suite a client and an empty store.
function use(options = {}) {
  const given = {};
  beforeEach(async () => {
    given.etcd = new Etcd3({ hosts, ...options });
    await given.etcd.delete().all();
  });
  afterEach(async () => {
    await given.etcd.delete().all();
    given.etcd.close();
  });
  return given;
}

// collect returns a function that waits for the next n events of an emitter's kinds, as [kind, key, value].
function collect(watcher, ...kinds) {
  const events = [];
  const arrived = new EventEmitter();
  for (const kind of kinds) {
    watcher.on(kind, kv => {
      events.push([kind, kv.key.toString(), kv.value.toString()]);
      arrived.emit('one');
    });
  }
  return async n => {
    while (events.length < n) await once(arrived, 'one');
    return events.splice(0, n);
  };
}

module.exports = { Etcd3, collect, hosts, once, use };
