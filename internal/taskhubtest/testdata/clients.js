// Scenarios of what clients do with instances.
"use strict";

const { PurgeInstanceCriteria, terminateOptions, HistoryEventType } = require("@microsoft/durabletask-js");
const { StringValue } = require("google-protobuf/google/protobuf/wrappers_pb");
const pb = require("@microsoft/durabletask-js/dist/proto/orchestrator_service_pb");
const { assert, codeOf, collect, eventually, grpc, output, pause, OrchestrationStatus } = require("./kit");

const { COMPLETED, FAILED, PENDING, RUNNING, SUSPENDED, TERMINATED } = OrchestrationStatus;

// broken says which instances fail at the moment.
const broken = new Set();

const activities = {
  mend: async (ctx) => {
    if (broken.has(ctx.orchestrationId)) throw new Error("broken");
    return "mended";
  },
};

const orchestrators = {
  waits: async function* (ctx, input) {
    const got = yield ctx.waitForExternalEvent("go");
    return { input, got };
  },
  waitsForChild: async function* (ctx, child) {
    return yield ctx.callSubOrchestrator("waits", "child", { instanceId: child });
  },
  hasChild: async function* (ctx, child) {
    return yield ctx.callSubOrchestrator("sequence", 1, { instanceId: child });
  },
  varied: async function* (ctx, child) {
    yield ctx.createTimer(0.05);
    yield ctx.waitForExternalEvent("go");
    yield ctx.callSubOrchestrator("sequence", 1, { instanceId: child });
  },
  mends: async function* (ctx) {
    return yield ctx.callActivity("mend");
  },
};

// own returns code with which a scenario can serve a task hub of its own.
const own = { orchestrators: { waits: orchestrators.waits, done: async (_, input) => input } };

const rejects = (promise, check) => assert.rejects(promise, (e) => (check(e), true));

const scenarios = {
  "suspend and resume": async (t) => {
    const id = await t.start("waits", 1);
    await t.is(id, RUNNING);
    await t.client.suspendOrchestration(id);
    await t.is(id, SUSPENDED);
    await t.client.raiseOrchestrationEvent(id, "go", 2);
    await pause(200);
    await t.is(id, SUSPENDED);
    await t.client.resumeOrchestration(id);
    assert.deepEqual(output(await t.ends(id)), { input: 1, got: 2 });
  },

  "terminate with an output": async (t) => {
    const id = await t.start("waits");
    await t.is(id, RUNNING);
    await t.client.terminateOrchestration(id, { reason: "not wanted" });
    assert.deepEqual(output(await t.ends(id, TERMINATED)), { reason: "not wanted" });
    await t.client.terminateOrchestration(id, "again"); // of one that has ended: nothing happens
    assert.deepEqual(output(await t.ends(id, TERMINATED)), { reason: "not wanted" });
  },

  "terminate with children": async (t) => {
    const child = t.id();
    const id = await t.start("waitsForChild", child);
    await t.is(child, RUNNING);
    await t.client.terminateOrchestration(id, terminateOptions({ output: "all", recursive: true }));
    assert.equal(output(await t.ends(id, TERMINATED)), "all");
    await t.ends(child, TERMINATED);
  },

  "terminate without children": async (t) => {
    const child = t.id();
    const id = await t.start("waitsForChild", child);
    await t.is(child, RUNNING);
    await t.client.terminateOrchestration(id, terminateOptions({ recursive: false }));
    await t.ends(id, TERMINATED);
    await t.client.raiseOrchestrationEvent(child, "go", 1);
    assert.deepEqual(output(await t.ends(child)), { input: "child", got: 1 });
  },

  "terminate one that does not exist": async (t) => {
    await rejects(t.client.terminateOrchestration(t.id()), (e) => assert.equal(codeOf(e), grpc.status.NOT_FOUND));
  },

  "purge one": async (t) => {
    const id = await t.start("hello", "x");
    await t.ends(id);
    assert.equal((await t.client.purgeOrchestration(id)).deletedInstanceCount, 1);
    assert.equal(await t.client.getOrchestrationState(id), undefined);
    assert.equal((await t.client.purgeOrchestration(id)).deletedInstanceCount, 0);
  },

  "purge one that does not exist": async (t) => {
    assert.equal((await t.client.purgeOrchestration(t.id())).deletedInstanceCount, 0);
  },

  "purge one that runs": async (t) => {
    const id = await t.start("waits");
    await t.is(id, RUNNING);
    assert.equal((await t.client.purgeOrchestration(id)).deletedInstanceCount, 0);
    await t.client.raiseOrchestrationEvent(id, "go");
    await t.ends(id);
  },

  "purge with children": async (t) => {
    const child = t.id();
    const id = await t.start("hasChild", child);
    await t.ends(id);
    assert.equal((await t.client.purgeOrchestration(id, { recursive: true })).deletedInstanceCount, 2);
    assert.equal(await t.client.getOrchestrationState(child), undefined);
  },

  "purge without children": async (t) => {
    const child = t.id();
    const id = await t.start("hasChild", child);
    await t.ends(id);
    assert.equal((await t.client.purgeOrchestration(id)).deletedInstanceCount, 1);
    assert.equal(await t.client.getOrchestrationState(id), undefined);
    await t.ends(child);
  },

  "purge by filter": async (t) => {
    t.client = t.clientOf(t.prefix);
    await t.work(t.prefix, own);
    const ended = [await t.start("done"), await t.start("done")];
    for (const id of ended) await t.ends(id);
    const ending = await t.start("waits");
    await t.is(ending, RUNNING);
    await t.client.terminateOrchestration(ending);
    await t.ends(ending, TERMINATED);
    const running = await t.start("waits");
    const criteria = new PurgeInstanceCriteria();
    criteria.setCreatedTimeFrom(new Date(Date.now() - 600_000));
    criteria.setCreatedTimeTo(new Date(Date.now() + 600_000));
    criteria.setRuntimeStatusList([COMPLETED]);
    assert.equal((await t.client.purgeOrchestration(criteria)).deletedInstanceCount, 2);
    const left = (await collect(t.client.getAllInstances())).map((s) => s.instanceId);
    assert.deepEqual(left.sort(), [ending, running].sort());
    await t.client.terminateOrchestration(running);
  },

  "restart under the same ID": async (t) => {
    const id = await t.start("hello", "again");
    const first = await t.ends(id);
    assert.equal(await t.client.restartOrchestration(id), id);
    const second = await t.ends(id);
    assert.equal(output(second), "Hello, again!");
    assert.ok(second.createdAt > first.createdAt, "it is another run");
  },

  "restart under a new ID": async (t) => {
    const id = await t.start("hello", "other", { tags: { team: "a" } });
    await t.ends(id);
    const other = await t.client.restartOrchestration(id, true);
    assert.notEqual(other, id);
    assert.equal(output(await t.ends(other)), "Hello, other!");
  },

  "restart of one that runs": async (t) => {
    const id = await t.start("waits", "x");
    await t.is(id, RUNNING);
    await rejects(t.client.restartOrchestration(id), (e) => assert.match(e.message, /cannot be restarted/));
    const other = await t.client.restartOrchestration(id, true);
    for (const one of [id, other]) {
      await t.client.raiseOrchestrationEvent(one, "go", 1);
      assert.deepEqual(output(await t.ends(one)), { input: "x", got: 1 });
    }
  },

  "restart of one that does not exist": async (t) => {
    await rejects(t.client.restartOrchestration(t.id()), (e) => assert.match(e.message, /was not found/));
  },

  rewind: async (t) => {
    const id = t.id();
    broken.add(id);
    await t.start("mends", undefined, { instanceId: id });
    await t.ends(id, FAILED);
    broken.delete(id);
    await t.client.rewindInstance(id, "the activity works again");
    assert.equal(output(await t.ends(id)), "mended");
    await rejects(t.client.rewindInstance(id, "it has completed"), (e) => assert.equal(codeOf(e), grpc.status.FAILED_PRECONDITION));
  },

  "query by status": async (t) => {
    const ended = await t.start("hello", "x");
    const running = await t.start("waits");
    await t.ends(ended);
    await t.is(running, RUNNING);
    const found = async (statuses) =>
      (await collect(t.client.getAllInstances({ statuses, instanceIdPrefix: t.prefix }))).map((s) => s.instanceId);
    assert.deepEqual(await found([COMPLETED]), [ended]);
    assert.deepEqual(await found([RUNNING]), [running]);
    assert.deepEqual((await found([RUNNING, COMPLETED])).sort(), [ended, running].sort());
    assert.deepEqual(await found([FAILED]), []);
    await t.client.terminateOrchestration(running);
  },

  "query with inputs and outputs": async (t) => {
    const id = await t.start("hello", "payload");
    await t.ends(id);
    const [bare] = await collect(t.client.getAllInstances({ instanceIdPrefix: t.prefix }));
    assert.equal(bare.serializedOutput, undefined);
    const [full] = await collect(t.client.getAllInstances({ instanceIdPrefix: t.prefix, fetchInputsAndOutputs: true }));
    assert.deepEqual([full.instanceId, full.name, full.serializedInput, full.serializedOutput], [id, "hello", `"payload"`, `"Hello, payload!"`]);
  },

  "query by time": async (t) => {
    const first = await t.start("hello", "a");
    const between = new Date((await t.ends(first)).createdAt.getTime() + 1000);
    await eventually("a second has passed", async () => Date.now() > between.getTime() + 1);
    const second = await t.start("hello", "b");
    await t.ends(second);
    const found = async (query) =>
      (await collect(t.client.getAllInstances({ instanceIdPrefix: t.prefix, ...query }))).map((s) => s.instanceId);
    assert.deepEqual(await found({ createdTo: between }), [first]);
    assert.deepEqual(await found({ createdFrom: between }), [second]);
  },

  "query in pages": async (t) => {
    const ids = [];
    for (let i = 0; i < 7; i++) ids.push(await t.start("inputOnly", i));
    for (const id of ids) await t.ends(id);
    const sizes = [];
    const found = [];
    for await (const page of t.client.getAllInstances({ instanceIdPrefix: t.prefix, pageSize: 3 }).asPages()) {
      if (page.values.length > 0) sizes.push(page.values.length);
      found.push(...page.values.map((s) => s.instanceId));
    }
    assert.deepEqual(sizes, [3, 3, 1]);
    assert.deepEqual(found.sort(), ids.sort());
  },

  "list IDs": async (t) => {
    t.client = t.clientOf(t.prefix);
    await t.work(t.prefix, own);
    const from = new Date(Date.now() - 60_000);
    const ids = [];
    for (let i = 0; i < 5; i++) ids.push(await t.start("done", i));
    for (const id of ids) await t.ends(id);
    const found = [];
    let key;
    do {
      const page = await t.client.listInstanceIds({ runtimeStatus: [COMPLETED], completedTimeFrom: from, pageSize: 2, lastInstanceKey: key });
      found.push(...page.values);
      key = page.hasMoreResults ? page.continuationToken : undefined;
    } while (key);
    assert.deepEqual(found.sort(), ids.sort());
    assert.deepEqual((await t.client.listInstanceIds({ runtimeStatus: [FAILED] })).values, []);
    assert.deepEqual((await t.client.listInstanceIds({ completedTimeTo: from })).values, []);
  },

  tags: async (t) => {
    const tags = { team: "payments", "cost/center": "ä 7" };
    const id = await t.start("hello", "x", { tags });
    assert.deepEqual((await t.ends(id)).tags, tags);
    const started = (await t.client.getOrchestrationHistory(id)).find((e) => e.type === HistoryEventType.ExecutionStarted);
    assert.deepEqual(started.tags, tags);
  },

  "scheduled start": async (t) => {
    const at = new Date(Date.now() + 1_000);
    const id = await t.start("inputOnly", 1, { startAt: at });
    assert.equal((await t.client.getOrchestrationState(id)).runtimeStatus, PENDING);
    const state = await t.ends(id);
    assert.ok(Date.now() >= at.getTime(), "it did not start early");
    assert.deepEqual(output(state), { got: 1 });
  },

  "wait for a start": async (t) => {
    const id = await t.start("waits", "in");
    const state = await t.client.waitForOrchestrationStart(id, true, 30);
    assert.equal(state.runtimeStatus, RUNNING);
    assert.equal(state.serializedInput, `"in"`);
    await t.client.terminateOrchestration(id);
  },

  "wait too long": async (t) => {
    const id = await t.start("waits");
    await rejects(t.client.waitForOrchestrationCompletion(id, true, 0.3), (e) => assert.match(e.message, /[Tt]imed out/));
    await t.client.raiseOrchestrationEvent(id, "go");
    await t.ends(id);
  },

  "one that does not exist": async (t) => {
    assert.equal(await t.client.getOrchestrationState(t.id()), undefined);
    assert.equal(await t.client.waitForOrchestrationCompletion(t.id(), true, 5), undefined);
    assert.deepEqual(await t.client.getOrchestrationHistory(t.id()), []);
    await rejects(t.client.raiseOrchestrationEvent(t.id(), "go"), (e) => assert.equal(codeOf(e), grpc.status.NOT_FOUND));
  },

  "ID that is taken": async (t) => {
    const id = await t.start("waits", 1);
    const again = () => t.client.scheduleNewOrchestration("waits", 2, { instanceId: id });
    await rejects(again(), (e) => assert.equal(codeOf(e), grpc.status.ALREADY_EXISTS));
    await t.client.raiseOrchestrationEvent(id, "go");
    assert.equal(output(await t.ends(id)).input, 1);
  },

  history: async (t) => {
    const id = await t.start("sequence", 1);
    await t.ends(id);
    const events = await t.client.getOrchestrationHistory(id);
    const count = (type) => events.filter((e) => e.type === type).length;
    assert.equal(count(HistoryEventType.ExecutionStarted), 1);
    assert.equal(count(HistoryEventType.TaskScheduled), 5);
    assert.equal(count(HistoryEventType.TaskCompleted), 5);
    assert.equal(count(HistoryEventType.ExecutionCompleted), 1);
    const scheduled = events.filter((e) => e.type === HistoryEventType.TaskScheduled);
    const completed = events.filter((e) => e.type === HistoryEventType.TaskCompleted);
    assert.deepEqual(completed.map((e) => e.taskScheduledId), scheduled.map((e) => e.eventId));
    assert.deepEqual(scheduled.map((e) => [e.name, e.input]), [1, 2, 4, 8, 16].map((n) => ["double", String(n)]));
    assert.deepEqual(completed.map((e) => e.result), ["2", "4", "8", "16", "32"]);
  },

  "history of timers, events and children": async (t) => {
    const child = t.id();
    const id = await t.start("varied", child);
    await t.client.raiseOrchestrationEvent(id, "go", "now");
    await t.ends(id);
    const events = await t.client.getOrchestrationHistory(id);
    const one = (type) => {
      const found = events.filter((e) => e.type === type);
      assert.equal(found.length, 1, `events of type ${type}`);
      return found[0];
    };
    assert.equal(one(HistoryEventType.TimerFired).timerId, one(HistoryEventType.TimerCreated).eventId);
    const raised = one(HistoryEventType.EventRaised);
    assert.deepEqual([raised.name, raised.input], ["go", `"now"`]);
    const created = one(HistoryEventType.SubOrchestrationInstanceCreated);
    assert.deepEqual([created.name, created.instanceId], ["sequence", child]);
    const completed = one(HistoryEventType.SubOrchestrationInstanceCompleted);
    assert.deepEqual([completed.taskScheduledId, completed.result], [created.eventId, "32"]);
    const parent = (await t.client.getOrchestrationHistory(child)).find((e) => e.type === HistoryEventType.ExecutionStarted).parentInstance;
    assert.equal(parent.orchestrationInstance.instanceId, id);
  },

  "ID that may be replaced": async (t) => {
    const id = await t.start("inputOnly", 1);
    await t.ends(id);
    const request = new pb.CreateInstanceRequest();
    request.setInstanceid(id);
    request.setName("inputOnly");
    request.setInput(new StringValue().setValue("2"));
    const policy = new pb.OrchestrationIdReusePolicy();
    request.setOrchestrationidreusepolicy(policy);
    const start = () => new Promise((resolve, reject) => t.client._stub.startInstance(request, (e, r) => (e ? reject(e) : resolve(r))));
    policy.setReplaceablestatusList([pb.OrchestrationStatus.ORCHESTRATION_STATUS_FAILED]);
    await rejects(start(), (e) => assert.equal(codeOf(e), grpc.status.ALREADY_EXISTS));
    policy.setReplaceablestatusList([pb.OrchestrationStatus.ORCHESTRATION_STATUS_COMPLETED]);
    await start();
    assert.deepEqual(output(await t.ends(id)), { got: 2 });
  },

  "inner failures": async (t) => {
    const id = await t.start("fails");
    await t.ends(id, FAILED);
    const request = new pb.GetInstanceRequest();
    request.setInstanceid(id);
    const answer = await new Promise((resolve, reject) => {
      t.client._stub.getInstance(request, (e, r) => (e ? reject(e) : resolve(r)));
    });
    const chain = [];
    for (let f = answer.getOrchestrationstate().getFailuredetails(); f; f = f.getInnerfailure()) chain.push([f.getErrortype(), f.getErrormessage()]);
    assert.deepEqual(chain, [["PaymentRefused", "no account"], ["RangeError", "no bank"], ["Error", "no country"]]);
  },

  "task hubs are apart": async (t) => {
    const id = await t.start("hello", "x");
    await t.ends(id);
    const other = t.clientOf(t.prefix);
    assert.equal(await other.getOrchestrationState(id), undefined);
    assert.deepEqual(await collect(other.getAllInstances()), []);
  },
};

const survives = [
  "suspend and resume", "terminate with an output", "terminate with children", "terminate without children", "tags", "scheduled start",
  "wait for a start", "history",
];

module.exports = { orchestrators, activities, scenarios, survives };
