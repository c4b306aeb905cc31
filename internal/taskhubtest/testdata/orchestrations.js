// Scenarios of what the code of orchestrations does.
"use strict";

const { whenAll, whenAny, RetryPolicy } = require("@microsoft/durabletask-js");
const { assert, output, pause, OrchestrationStatus } = require("./kit");

const { FAILED, RUNNING, TERMINATED } = OrchestrationStatus;

// attempts counts how often something was tried, by the instance that tried it.
const attempts = new Map();

function attempt(key) {
  attempts.set(key, (attempts.get(key) ?? 0) + 1);
  return attempts.get(key);
}

class PaymentRefused extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = "PaymentRefused";
  }
}

const activities = {
  greet: async (_, name) => `Hello, ${name}!`,
  double: async (_, n) => 2 * n,
  echo: async (_, value) => value,
  slow: async (_, ms) => {
    await pause(ms);
    return ms;
  },
  refuse: async (_, amount) => {
    throw new PaymentRefused(`${amount} is too much`, { cause: new RangeError("limit 100", { cause: new Error("account of a guest") }) });
  },
  // fails as often as its input says
  flaky: async (ctx, failures) => {
    const n = attempt(ctx.orchestrationId);
    if (n <= failures) throw new Error(`attempt ${n}`);
    return n;
  },
};

const soon = (maxNumberOfAttempts, more) => new RetryPolicy({ maxNumberOfAttempts, firstRetryIntervalInMilliseconds: 20, ...more });

const orchestrators = {
  hello: async function* (ctx, name) {
    return yield ctx.callActivity("greet", name);
  },
  inputOnly: async (_, input) => ({ got: input }),
  sequence: async function* (ctx, n) {
    for (let i = 0; i < 5; i++) n = yield ctx.callActivity("double", n);
    return n;
  },
  fanOut: async function* (ctx, n) {
    const results = yield whenAll(Array.from({ length: n }, (_, i) => ctx.callActivity("double", i)));
    return results.reduce((a, b) => a + b, 0);
  },
  echoes: async function* (ctx, values) {
    const got = [];
    for (const v of values) got.push(yield ctx.callActivity("echo", v));
    return got;
  },
  sleep: async function* (ctx, seconds) {
    const begun = ctx.currentUtcDateTime.getTime();
    yield ctx.createTimer(seconds);
    return ctx.currentUtcDateTime.getTime() - begun;
  },
  sleepUntil: async function* (ctx, at) {
    yield ctx.createTimer(new Date(at));
    return "awake";
  },
  approval: async function* (ctx) {
    return yield ctx.waitForExternalEvent("approval");
  },
  lateApproval: async function* (ctx) {
    yield ctx.callActivity("slow", 300);
    return yield ctx.waitForExternalEvent("approval");
  },
  threeEvents: async function* (ctx) {
    const got = [];
    while (got.length < 3) got.push(yield ctx.waitForExternalEvent("part"));
    return got;
  },
  twoEvents: async function* (ctx) {
    return yield whenAll([ctx.waitForExternalEvent("left"), ctx.waitForExternalEvent("right")]);
  },
  deadline: async function* (ctx, seconds) {
    const approved = ctx.waitForExternalEvent("approval");
    const timeout = ctx.createTimer(seconds);
    const first = yield whenAny([approved, timeout]);
    if (first === timeout) return "late";
    timeout.cancel();
    return approved.getResult();
  },
  race: async function* (ctx, delays) {
    const tasks = delays.map((ms) => ctx.callActivity("slow", ms));
    const first = yield whenAny(tasks);
    return first.getResult();
  },
  parent: async function* (ctx, { child, input, options }) {
    return yield ctx.callSubOrchestrator(child, input, options);
  },
  parentOfFailing: async function* (ctx) {
    try {
      yield ctx.callSubOrchestrator("pays", 500);
      return "no failure";
    } catch (e) {
      return { name: e.name, type: e.details?.errorType, message: e.details?.message };
    }
  },
  family: async function* (ctx) {
    return { id: ctx.instanceId, parent: ctx.parent?.instanceId, name: ctx.parent?.name };
  },
  parents: async function* (ctx, n) {
    return yield whenAll(Array.from({ length: n }, (_, i) => ctx.callSubOrchestrator("sequence", i)));
  },
  versioned: async (ctx) => ctx.version,
  pays: async function* (ctx, amount) {
    return yield ctx.callActivity("refuse", amount);
  },
  fails: async function* () {
    throw new PaymentRefused("no account", { cause: new RangeError("no bank", { cause: new Error("no country") }) });
  },
  flakyChild: async (ctx, failures) => {
    const n = attempt("child of " + ctx.parent.instanceId);
    if (n <= failures) throw new Error(`attempt ${n}`);
    return n;
  },
  retriesChild: async function* (ctx, failures) {
    return yield ctx.callSubOrchestrator("flakyChild", failures, { retry: soon(4) });
  },
  retries: async function* (ctx, failures) {
    return yield ctx.callActivity("flaky", failures, { retry: soon(3) });
  },
  retriesSome: async function* (ctx) {
    return yield ctx.callActivity("flaky", 10, { retry: soon(10, { handleFailure: (f) => f.message !== "attempt 2" }) });
  },
  retriesByHandler: async function* (ctx, failures) {
    const retry = async (r) => (r.lastAttemptNumber < 5 && r.lastFailure.message === `attempt ${r.lastAttemptNumber}` ? 10 : false);
    return yield ctx.callActivity("flaky", failures, { retry });
  },
  failsFast: async function* (ctx) {
    try {
      yield whenAll([ctx.callActivity("slow", 400), ctx.callActivity("refuse", 101)]);
      return "no failure";
    } catch (e) {
      yield ctx.createTimer(1); // the slow one ends meanwhile
      return e.message;
    }
  },
  counts: async function* (ctx, { n, to }) {
    n = yield ctx.callActivity("echo", n + 1);
    if (n < to) {
      ctx.continueAsNew({ n, to }, false);
      return;
    }
    return n;
  },
  collects: async function* (ctx, got) {
    got.push(yield ctx.waitForExternalEvent("item"));
    if (got.length < 4) {
      ctx.continueAsNew(got, true);
      return;
    }
    return got;
  },
  reports: async function* (ctx) {
    ctx.setCustomStatus({ step: 1 });
    yield ctx.waitForExternalEvent("next");
    ctx.setCustomStatus("second");
    yield ctx.waitForExternalEvent("next");
    ctx.setCustomStatus({ step: 3 });
    return "done";
  },
  ids: async function* (ctx) {
    const before = [ctx.newGuid(), ctx.newGuid()];
    yield ctx.callActivity("echo", 1);
    return [...before, ctx.newGuid()];
  },
  sends: async function* (ctx, to) {
    ctx.sendEvent(to, "approval", { by: ctx.instanceId });
    yield ctx.createTimer(0.01);
    return "sent";
  },
  changes: async function* (ctx) {
    const first = attempt("run of " + ctx.instanceId) === 1;
    yield first ? ctx.callActivity("echo", 1) : ctx.createTimer(1);
    return "not noticed";
  },
  callsNothing: async function* (ctx) {
    return yield ctx.callActivity("nobody has this", 1);
  },
};

const scenarios = {
  hello: async (t) => assert.equal(await t.run("hello", "Tokyo"), "Hello, Tokyo!"),

  "without activities": async (t) => {
    const state = await t.ends(await t.start("inputOnly", { a: [1, "zwei", null] }));
    assert.deepEqual(output(state), { got: { a: [1, "zwei", null] } });
    assert.equal(state.name, "inputOnly");
    assert.equal(state.serializedInput, `{"a":[1,"zwei",null]}`);
    assert.ok(state.createdAt <= state.lastUpdatedAt && Date.now() - state.createdAt < 300_000, "the times are those of now");
  },

  sequence: async (t) => assert.equal(await t.run("sequence", 3), 96),

  "fan out and in": async (t) => assert.equal(await t.run("fanOut", 25), 600),

  "values that are false": async (t) => {
    assert.deepEqual(await t.run("echoes", [0, "", false, null]), [0, "", false, null]);
    assert.equal(await t.run("sequence", 0), 0);
  },

  "large payloads": async (t) => {
    const text = "ä".repeat(512 << 10);
    const got = await t.run("echoes", [text]);
    assert.equal(got[0], text);
  },

  "fails a name of an activity that nobody has": async (t) => {
    assert.match((await t.fails("callsNothing")).message, /nobody has this/);
  },

  timer: async (t) => {
    const slept = await t.run("sleep", 0.5);
    assert.ok(slept >= 500 && slept < 30_000, `slept for ${slept} ms`);
  },

  "timer of the past": async (t) => assert.equal(await t.run("sleepUntil", "2020-01-01T00:00:00Z"), "awake"),

  "timer of years": async (t) => {
    const id = await t.start("sleepUntil", new Date(Date.now() + 20 * 365 * 24 * 3600_000).toISOString());
    await t.is(id, RUNNING);
    await t.client.terminateOrchestration(id, "nobody waits so long");
    assert.equal(output(await t.ends(id, TERMINATED)), "nobody waits so long");
  },

  "event while waiting": async (t) => {
    const id = await t.start("approval");
    await t.client.waitForOrchestrationStart(id);
    await t.client.raiseOrchestrationEvent(id, "approval", { by: "operator" });
    assert.deepEqual(output(await t.ends(id)), { by: "operator" });
  },

  "event before waiting": async (t) => {
    const id = await t.start("lateApproval");
    await t.client.raiseOrchestrationEvent(id, "approval", 7);
    assert.equal(output(await t.ends(id)), 7);
  },

  "event in another case": async (t) => {
    const id = await t.start("approval");
    await t.client.raiseOrchestrationEvent(id, "APPROVAL", "yes");
    assert.equal(output(await t.ends(id)), "yes");
  },

  "events in order": async (t) => {
    const id = await t.start("threeEvents");
    for (const part of ["a", "b", "c"]) await t.client.raiseOrchestrationEvent(id, "part", part);
    assert.deepEqual(output(await t.ends(id)), ["a", "b", "c"]);
  },

  "several events at once": async (t) => {
    const id = await t.start("twoEvents");
    await t.client.raiseOrchestrationEvent(id, "right", 2);
    await t.client.raiseOrchestrationEvent(id, "left");
    assert.deepEqual(output(await t.ends(id)), [null, 2]);
  },

  "event before its deadline": async (t) => {
    const id = await t.start("deadline", 3600);
    await t.client.raiseOrchestrationEvent(id, "approval", "in time");
    assert.equal(output(await t.ends(id)), "in time");
  },

  "deadline before the event": async (t) => assert.equal(await t.run("deadline", 0.2), "late"),

  "first of several": async (t) => assert.equal(await t.run("race", [900, 20, 700]), 20),

  "event of an orchestration": async (t) => {
    const to = await t.start("approval");
    const from = await t.start("sends", to);
    assert.deepEqual(output(await t.ends(to)), { by: from });
    assert.equal(output(await t.ends(from)), "sent");
  },

  "sub-orchestration": async (t) => assert.equal(await t.run("parent", { child: "sequence", input: 1 }), 32),

  "many sub-orchestrations": async (t) => assert.deepEqual(await t.run("parents", 5), [0, 32, 64, 96, 128]),

  "sub-orchestration knows its parent": async (t) => {
    const child = t.id();
    const id = await t.start("parent", { child: "family", options: { instanceId: child } });
    const got = output(await t.ends(id));
    assert.equal(got.id, child);
    assert.equal(got.name, "parent");
    assert.equal((await t.client.getOrchestrationState(child)).name, "family");
    assert.deepEqual(await t.run("family").then((f) => f.name), undefined);
  },

  "sub-orchestration fails": async (t) => {
    const got = await t.run("parentOfFailing");
    assert.equal(got.name, "TaskFailedError");
    assert.match(got.message, /500 is too much/);
  },

  "sub-orchestration is retried": async (t) => assert.equal(await t.run("retriesChild", 2), 3),

  "sub-orchestration has a version": async (t) => {
    assert.equal(await t.run("parent", { child: "versioned", options: { version: "2.1" } }), "2.1");
  },

  version: async (t) => {
    assert.equal(await t.run("versioned", undefined, { version: "1.4.2" }), "1.4.2");
    assert.equal(await t.run("versioned"), "");
  },

  "failure of an activity": async (t) => {
    const failure = await t.fails("pays", 200);
    assert.match(failure.message, /200 is too much/);
    assert.equal(failure.errorType, "TaskFailedError");
  },

  "activity is retried by a policy": async (t) => assert.equal(await t.run("retries", 2), 3),

  "retries of a policy end": async (t) => assert.match((await t.fails("retries", 5)).message, /attempt 3/),

  "policy retries some failures only": async (t) => assert.match((await t.fails("retriesSome")).message, /attempt 2/),

  "activity is retried by a handler": async (t) => assert.equal(await t.run("retriesByHandler", 3), 4),

  "all fail fast": async (t) => assert.match(await t.run("failsFast"), /101 is too much/),

  "continue as new": async (t) => assert.equal(await t.run("counts", { n: 0, to: 6 }), 6),

  "continue as new carries events": async (t) => {
    const id = await t.start("collects", []);
    for (const item of [1, 2, 3, 4]) await t.client.raiseOrchestrationEvent(id, "Item", item);
    assert.deepEqual(output(await t.ends(id)), [1, 2, 3, 4]);
  },

  "custom status": async (t) => {
    const id = await t.start("reports");
    await t.reaches(id, "its status is the first", (s) => s.serializedCustomStatus === `{"step":1}`);
    await t.client.raiseOrchestrationEvent(id, "next");
    await t.reaches(id, "its status is the second", (s) => s.serializedCustomStatus === `"second"`);
    await t.client.raiseOrchestrationEvent(id, "next");
    assert.equal((await t.ends(id)).serializedCustomStatus, `{"step":3}`);
  },

  "unique IDs": async (t) => {
    const got = await t.run("ids");
    assert.equal(new Set(got).size, 3);
    for (const id of got) assert.match(id, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  },

  "code that changes": async (t) => {
    const failure = await t.fails("changes");
    assert.equal(failure.errorType, "NonDeterminismError");
  },

  "failure details": async (t) => {
    const id = await t.start("fails");
    const failure = (await t.ends(id, FAILED)).failureDetails;
    assert.deepEqual([failure.errorType, failure.message], ["PaymentRefused", "no account"]);
    assert.match(failure.stackTrace, /orchestrations\.js/);
  },
};

const survives = [
  "hello", "without activities", "sequence", "fan out and in", "values that are false", "timer", "timer of years", "event while waiting",
  "event before waiting", "event in another case", "event before its deadline", "deadline before the event", "event of an orchestration",
  "sub-orchestration", "many sub-orchestrations", "sub-orchestration knows its parent", "sub-orchestration fails", "version",
  "failure of an activity", "all fail fast", "continue as new", "failure details", "unique IDs", "first of several",
];

module.exports = { orchestrators, activities, scenarios, survives };
