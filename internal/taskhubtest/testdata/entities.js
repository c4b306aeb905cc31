// Scenarios of entities.
"use strict";

const { EntityInstanceId, TaskEntity, whenAll } = require("@microsoft/durabletask-js");
const { assert, collect, eventually, output } = require("./kit");

class Account extends TaskEntity {
  initializeState() {
    return { balance: 0, entries: 0 };
  }

  deposit(amount) {
    if (amount <= 0) throw new RangeError(`a deposit of ${amount}`);
    this.state.balance += amount;
    this.state.entries++;
    return this.state.balance;
  }

  balance() {
    return this.state.balance;
  }

  // forward signals another account
  forward({ to, amount }) {
    this.state.balance -= amount;
    this.context.signalEntity(new EntityInstanceId("account", to), "deposit", amount);
  }

  // audit starts an orchestration
  audit(id) {
    return this.context.scheduleNewOrchestration("hello", "auditor", { instanceId: id });
  }
}

const account = (key) => new EntityInstanceId("account", key);

const orchestrators = {
  deposits: async function* (ctx, { key, amounts }) {
    const got = [];
    for (const amount of amounts) got.push(yield ctx.entities.callEntity(account(key), "deposit", amount));
    return got;
  },
  signals: async function* (ctx, { key, amounts }) {
    for (const amount of amounts) ctx.entities.signalEntity(account(key), "deposit", amount);
    return yield ctx.entities.callEntity(account(key), "balance");
  },
  depositsAtOnce: async function* (ctx, { key, n }) {
    yield whenAll(Array.from({ length: n }, () => ctx.entities.callEntity(account(key), "deposit", 1)));
    return yield ctx.entities.callEntity(account(key), "balance");
  },
  failingDeposit: async function* (ctx, key) {
    try {
      yield ctx.entities.callEntity(account(key), "deposit", -1);
      return "no failure";
    } catch (e) {
      const balance = yield ctx.entities.callEntity(account(key), "balance");
      return [e.failureDetails.errorType, e.failureDetails.errorMessage, balance];
    }
  },
  // transfer reads and writes two accounts that nobody else uses meanwhile
  transfer: async function* (ctx, { from, to, amount }) {
    const lock = yield ctx.entities.lockEntities(account(from), account(to));
    const held = ctx.entities.isInCriticalSection();
    const before = yield ctx.entities.callEntity(account(to), "balance");
    yield ctx.callActivity("slow", 20);
    yield ctx.entities.callEntity(account(from), "deposit", amount);
    const after = yield ctx.entities.callEntity(account(to), "deposit", amount);
    lock.release();
    return { held: held.lockedEntities?.length, added: after - before };
  },
};

// balanceIs waits until an account has a balance.
const balanceIs = (t, key, balance) =>
  eventually(`${key} has ${balance}`, async () => {
    const found = await t.client.getEntity(account(key));
    return found?.state?.balance === balance ? found : undefined;
  });

const scenarios = {
  "entity is signaled": async (t) => {
    const key = t.id();
    for (const amount of [5, 7, 9]) await t.client.signalEntity(account(key), "Deposit", amount);
    const found = await balanceIs(t, key, 21);
    assert.deepEqual(found.state, { balance: 21, entries: 3 });
    assert.equal(found.id.toString(), account(key).toString());
    assert.ok(Math.abs(Date.now() - found.lastModifiedTime) < 300_000, "it was modified now");
    assert.equal(found.lockedBy, undefined);
    assert.equal((await t.client.getEntity(account(key), false)).includesState, false);
  },

  "entity that does not exist": async (t) => assert.equal(await t.client.getEntity(account(t.id())), undefined),

  "entity is called": async (t) => {
    assert.deepEqual(await t.run("deposits", { key: t.id(), amounts: [1, 2, 3] }), [1, 3, 6]);
  },

  "signals come before a call": async (t) => {
    assert.equal(await t.run("signals", { key: t.id(), amounts: [1, 2, 3, 4] }), 10);
  },

  "entity runs one operation at a time": async (t) => {
    const key = t.id();
    await Promise.all([1, 2, 3].map(() => t.run("depositsAtOnce", { key, n: 10 })));
    await balanceIs(t, key, 30);
  },

  "operation of an entity fails": async (t) => {
    const got = await t.run("failingDeposit", t.id());
    assert.deepEqual(got, ["RangeError", "a deposit of -1", 0]);
  },

  "entity signals another": async (t) => {
    const [from, to] = [t.id(), t.id()];
    await t.client.signalEntity(account(from), "deposit", 10);
    await t.client.signalEntity(account(from), "forward", { to, amount: 4 });
    await balanceIs(t, to, 4);
    await balanceIs(t, from, 6);
  },

  "entity starts an orchestration": async (t) => {
    const id = t.id();
    await t.client.signalEntity(account(t.id()), "audit", id);
    await eventually("it is started", () => t.client.getOrchestrationState(id));
    assert.equal(output(await t.ends(id)), "Hello, auditor!");
  },

  "lock of two entities": async (t) => {
    const [from, to] = [t.id(), t.id()];
    const both = await Promise.all([
      t.run("transfer", { from, to, amount: 5 }), t.run("transfer", { from: to, to: from, amount: 3 }), t.run("transfer", { from, to, amount: 2 }),
    ]);
    assert.deepEqual(both, [{ held: 2, added: 5 }, { held: 2, added: 3 }, { held: 2, added: 2 }]);
    await balanceIs(t, from, 10);
    await balanceIs(t, to, 10);
    for (const key of [from, to]) await eventually(`${key} is unlocked`, async () => (await t.client.getEntity(account(key))).lockedBy === undefined);
  },

  "signal of later": async (t) => {
    const key = t.id();
    const at = new Date(Date.now() + 1_000);
    await t.client.signalEntity(account(key), "deposit", 8, { signalTime: at });
    await balanceIs(t, key, 8);
    assert.ok(Date.now() >= at.getTime(), "it did not come early");
  },

  "query of entities": async (t) => {
    const keys = [t.id(), t.id(), t.id()];
    for (const [i, key] of keys.entries()) await t.client.signalEntity(account(key), "deposit", i + 1);
    for (const [i, key] of keys.entries()) await balanceIs(t, key, i + 1);
    const query = { instanceIdStartsWith: `@account@${t.prefix}`, includeState: true, pageSize: 2 };
    const found = await collect(t.client.getEntities(query));
    assert.deepEqual(found.map((e) => [e.id.key, e.state.balance]).sort(), keys.map((key, i) => [key, i + 1]).sort());
  },

  "entity is deleted": async (t) => {
    const key = t.id();
    await t.client.signalEntity(account(key), "deposit", 1);
    await balanceIs(t, key, 1);
    await t.client.signalEntity(account(key), "delete");
    await eventually("it has no state", async () => {
      const found = await t.client.getEntity(account(key));
      return found === undefined || found.state === undefined || found.state === null;
    });
    assert.equal(await t.run("signals", { key, amounts: [2] }), 2);
  },

  "clean-up of entities": async (t) => {
    t.client = t.clientOf(t.prefix);
    await t.work(t.prefix, { entities: { account: () => new Account() } });
    const [kept, gone] = [t.id(), t.id()];
    for (const key of [kept, gone]) await t.client.signalEntity(account(key), "deposit", 1);
    await balanceIs(t, gone, 1);
    await t.client.signalEntity(account(gone), "delete");
    await eventually("it has no state", async () => !(await t.client.getEntity(account(gone)))?.state);
    await t.client.cleanEntityStorage({ removeEmptyEntities: true, releaseOrphanedLocks: true });
    const left = await collect(t.client.getEntities({ includeTransient: true }));
    assert.deepEqual(left.map((e) => e.id.key), [kept]);
  },
};

const survives = ["entity is called", "signals come before a call", "entity runs one operation at a time", "operation of an entity fails", "lock of two entities"];

module.exports = { orchestrators, entities: { account: () => new Account() }, scenarios, survives };
