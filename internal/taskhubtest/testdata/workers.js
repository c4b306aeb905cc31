// Scenarios of workers: each has task hubs and workers of its own.
"use strict";

const { spawn } = require("node:child_process");
const { once } = require("node:events");
const path = require("node:path");
const { VersionFailureStrategy, VersionMatchStrategy } = require("@microsoft/durabletask-js");
const { assert, output, pause, OrchestrationStatus } = require("./kit");

const { FAILED, PENDING } = OrchestrationStatus;

// served returns code that says by which worker it is run.
const served = (by, ...names) => ({
  orchestrators: Object.fromEntries(
    names.map((name) => [
      name,
      async function* (ctx) {
        return [by, yield ctx.callActivity("where")];
      },
    ]),
  ),
  activities: { where: async () => by },
});

const scenarios = {
  "filters by name": async (t) => {
    t.client = t.clientOf(t.prefix);
    const activities = [{ name: "where" }];
    await t.work(t.prefix, served("one", "a", "b"), { workItemFilters: { orchestrations: [{ name: "a" }], activities } });
    await t.work(t.prefix, served("two", "a", "b"), { workItemFilters: { orchestrations: [{ name: "b" }] } });
    for (let i = 0; i < 5; i++) {
      assert.deepEqual(await t.run("a"), ["one", "one"]);
      assert.deepEqual(await t.run("b"), ["two", "one"]);
    }
    const nobody = await t.start("c");
    await pause(300);
    assert.equal((await t.client.getOrchestrationState(nobody)).runtimeStatus, PENDING);
    await t.client.terminateOrchestration(nobody);
  },

  "filters of the registry": async (t) => {
    t.client = t.clientOf(t.prefix);
    await t.work(t.prefix, served("one", "a"), { workItemFilters: "auto" });
    await t.work(t.prefix, served("two", "b"), { workItemFilters: "auto" });
    const first = await Promise.all(Array.from({ length: 6 }, (_, i) => t.run(i % 2 ? "a" : "b")));
    assert.deepEqual(first.map(([by]) => by), ["two", "one", "two", "one", "two", "one"]);
  },

  "filters by version": async (t) => {
    t.client = t.clientOf(t.prefix);
    const only = (version) => ({ workItemFilters: { orchestrations: [{ name: "a", versions: [version] }], activities: [{ name: "where" }] } });
    await t.work(t.prefix, served("old", "a"), only("1.0"));
    await t.work(t.prefix, served("new", "a"), only("2.0"));
    assert.equal((await t.run("a", 1, { version: "2.0" }))[0], "new");
    assert.equal((await t.run("a", 1, { version: "1.0" }))[0], "old");
    const nobody = await t.start("a", 1, { version: "3.0" });
    await pause(300);
    assert.equal((await t.client.getOrchestrationState(nobody)).runtimeStatus, PENDING);
    await t.client.terminateOrchestration(nobody);
  },

  "worker comes later": async (t) => {
    t.client = t.clientOf(t.prefix);
    const id = await t.start("a");
    await pause(100);
    await t.work(t.prefix, served("late", "a"));
    assert.deepEqual(output(await t.ends(id)), ["late", "late"]);
  },

  "worker that is lost": async (t) => {
    t.client = t.clientOf(t.prefix);
    const lost = spawn(process.execPath, [path.join(__dirname, "lost.js"), t.address, t.prefix], { stdio: ["ignore", "pipe", "inherit"] });
    try {
      const id = await t.start("a");
      const [said] = await once(lost.stdout, "data");
      assert.equal(String(said), "begun\n");
      lost.kill("SIGKILL");
      await t.work(t.prefix, served("other", "a"));
      assert.deepEqual(output(await t.ends(id)), ["other", "other"]);
    } finally {
      lost.kill("SIGKILL");
    }
  },

  "version that a worker fails": async (t) => {
    t.client = t.clientOf(t.prefix);
    const versioning = { version: "1.0.0", matchStrategy: VersionMatchStrategy.Strict, failureStrategy: VersionFailureStrategy.Fail };
    await t.work(t.prefix, served("one", "a"), { versioning });
    assert.deepEqual(await t.run("a", 1, { version: "1.0.0" }), ["one", "one"]);
    const failure = await t.fails("a", 1, { version: "2.0.0" });
    assert.equal(failure.errorType, "VersionMismatch");
  },

  "version that a worker abandons": async (t) => {
    t.client = t.clientOf(t.prefix);
    const versioning = (version) => ({
      versioning: { version, matchStrategy: VersionMatchStrategy.Strict, failureStrategy: VersionFailureStrategy.Reject },
    });
    await t.work(t.prefix, served("one", "a"), versioning("1.0.0"));
    const id = await t.start("a", 1, { version: "2.0.0" });
    await pause(300);
    await t.work(t.prefix, served("two", "a"), versioning("2.0.0"));
    assert.equal(output(await t.ends(id))[0], "two");
  },

  "name that the worker does not have": async (t) => {
    const state = await t.ends(await t.start("nobody has this one"), FAILED);
    assert.equal(state.failureDetails.errorType, "OrchestratorNotRegisteredError");
  },
};

const survives = ["name that the worker does not have"];

module.exports = { scenarios, survives };
