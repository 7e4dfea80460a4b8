'use strict';
const assert = require('node:assert/strict');
const { EtcdAuthenticationFailedError, EtcdPermissionDeniedError, EtcdRoleExistsError, EtcdRoleNotFoundError } = require('etcd3');
const { Etcd3, hosts, use } = require('../client');

describe('roles and users', () => {
  const given = use();

  it('are made, listed and deleted', async () => {
    const { etcd } = given;
    const role = await etcd.role('reader').create();
    await role.grant({ permission: 'Read', range: etcd.range({ prefix: 'r/' }) });
    const [granted] = await role.permissions();
    assert.equal(granted.permission, 'Read');
    assert.ok(granted.range.compare(etcd.range({ prefix: 'r/' })) === 0);
    const user = await etcd.user('someone').create('password');
    await user.addRole(role);
    assert.deepEqual((await user.roles()).map(one => one.name), ['reader']);
    assert.deepEqual((await etcd.getUsers()).map(one => one.name), ['someone']);
    await assert.rejects(etcd.role('reader').create(), EtcdRoleExistsError);
    await user.delete();
    await role.delete();
    await assert.rejects(role.delete(), EtcdRoleNotFoundError);
    assert.deepEqual(await etcd.getRoles(), []);
  });
});

describe('authentication', () => {
  const given = use();

  it('admits users to their keys only', async () => {
    const { etcd } = given;
    await etcd.put('f/1').value('1');
    await etcd.put('secret').value('s');
    for (let n = 0; n < 5; n++) assert.equal(await etcd.get('secret'), 's'); // it may be cached now
    await (await etcd.user('root').create('root')).addRole('root');
    const role = await etcd.role('f').create();
    await role.grant({ permission: 'Readwrite', range: etcd.range({ prefix: 'f/' }) });
    await (await etcd.user('user').create('password')).addRole(role);
    await etcd.auth.authEnable();
    const root = new Etcd3({ hosts, auth: { username: 'root', password: 'root' } });
    const user = new Etcd3({ hosts, auth: { username: 'user', password: 'password' } });
    const wrong = new Etcd3({ hosts, auth: { username: 'user', password: 'wrong' } });
    try {
      await user.put('f/1').value('2');
      assert.equal(await user.get('f/1'), '2');
      await assert.rejects(user.get('secret').exec(), EtcdPermissionDeniedError);
      await assert.rejects(user.put('secret').value('x').exec(), EtcdPermissionDeniedError);
      await assert.rejects(user.delete().all().exec(), EtcdPermissionDeniedError);
      await assert.rejects(wrong.get('f/1').exec(), EtcdAuthenticationFailedError);
      await assert.rejects(etcd.put('f/1').value('3').exec());
      assert.equal(await root.get('secret'), 's');
      assert.equal(await root.get('f/1'), '2');
    } finally {
      await root.auth.authDisable();
      for (const one of [root, user, wrong]) one.close();
      for (const one of [...await etcd.getUsers(), ...await etcd.getRoles()]) await one.delete();
    }
  });
});
