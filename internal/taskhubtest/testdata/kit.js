// What scenarios share: clients, workers, and the checks of orchestrations.
"use strict";

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const grpc = require("@grpc/grpc-js");
const { TaskHubGrpcClient, TaskHubGrpcWorker, NoOpLogger, OrchestrationStatus } = require("@microsoft/durabletask-js");

// A channel connects again soon after the server was killed.
const channel = { "grpc.initial_reconnect_backoff_ms": 50, "grpc.max_reconnect_backoff_ms": 250 };

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const metadata = (hub) => async () => {
  const m = new grpc.Metadata();
  m.set("taskhub", hub);
  return m;
};

const newClient = (address, hub) =>
  new TaskHubGrpcClient({ hostAddress: address, options: channel, metadataGenerator: metadata(hub), logger: new NoOpLogger() });

// newWorker returns a worker with the code of a part: { orchestrators, activities, entities }.
function newWorker(address, hub, code, options = {}) {
  const worker = new TaskHubGrpcWorker({
    hostAddress: address, options: channel, metadataGenerator: metadata(hub), logger: new NoOpLogger(), ...options,
  });
  for (const [name, f] of Object.entries(code.orchestrators ?? {})) worker.addNamedOrchestrator(name, f);
  for (const [name, f] of Object.entries(code.activities ?? {})) worker.addNamedActivity(name, f);
  for (const [name, f] of Object.entries(code.entities ?? {})) worker.addNamedEntity(name, f);
  return worker;
}

const codeOf = (e) => e?.code ?? e?.cause?.code;

// persistent returns a client that repeats calls while the server is away. A start that was taken before the
// server was killed is refused when it is repeated, as its ID is taken.
function persistent(client) {
  const repeat = (name) => async (...args) => {
    for (let repeated = false; ; repeated = true) {
      try {
        return await client[name](...args);
      } catch (e) {
        if (repeated && name === "scheduleNewOrchestration" && codeOf(e) === grpc.status.ALREADY_EXISTS) return args[2].instanceId;
        if (codeOf(e) !== grpc.status.UNAVAILABLE) throw e;
        await pause(100);
      }
    }
  };
  const pages = new Set(["getAllInstances", "getEntities"]);
  return new Proxy(client, {
    get: (_, name) => (typeof client[name] !== "function" ? client[name] : pages.has(name) ? client[name].bind(client) : repeat(name)),
  });
}

// Scenario is what a scenario gets: a client of its own, and IDs that no other has.
class Scenario {
  constructor(name, address, kills) {
    this.name = name;
    this.address = address;
    this.kills = kills;
    this.prefix = `${name}-${randomUUID().slice(0, 8)}`;
    this.client = this.clientOf("default");
    this.last = 0;
    this.workers = [];
  }

  clientOf(hub) {
    const client = newClient(this.address, hub);
    return this.kills ? persistent(client) : client;
  }

  // id returns a new ID.
  id() {
    return `${this.prefix}-${++this.last}`;
  }

  // work starts a worker of the scenario's own, which serves another task hub than those of other scenarios.
  async work(hub, code, options) {
    const worker = newWorker(this.address, hub, code, options);
    this.workers.push(worker);
    await worker.start();
  }

  async end() {
    await Promise.all(this.workers.map((w) => w.stop()));
  }

  // start starts an orchestration and returns its ID.
  async start(name, input, options = {}) {
    return this.client.scheduleNewOrchestration(name, input, { instanceId: this.id(), ...options });
  }

  // ends waits until an instance has ended with a status.
  async ends(id, status = OrchestrationStatus.COMPLETED) {
    const state = await this.client.waitForOrchestrationCompletion(id, true, 120);
    assert.ok(state, `instance ${id} exists`);
    assert.equal(OrchestrationStatus[state.runtimeStatus], OrchestrationStatus[status], `${id}: ${state.failureDetails?.message}`);
    return state;
  }

  // run starts an orchestration, which must complete, and returns its output.
  async run(name, input, options) {
    return output(await this.ends(await this.start(name, input, options)));
  }

  // fails starts an orchestration, which must fail, and returns the details.
  async fails(name, input, options) {
    const state = await this.ends(await this.start(name, input, options), OrchestrationStatus.FAILED);
    assert.ok(state.failureDetails, "a failed instance has details");
    return state.failureDetails;
  }

  // reaches waits until a condition holds for an instance.
  async reaches(id, what, holds) {
    return eventually(what, async () => {
      const state = await this.client.getOrchestrationState(id);
      return state && holds(state) ? state : undefined;
    });
  }

  // is waits until an instance has a status.
  is(id, status) {
    return this.reaches(id, `${id} is ${OrchestrationStatus[status]}`, (s) => s.runtimeStatus === status);
  }
}

// eventually waits until a function returns something, and returns that.
async function eventually(what, look) {
  for (const end = Date.now() + 100_000; Date.now() < end; await pause(25)) {
    const found = await look();
    if (found) return found;
  }
  throw new Error(`it never came true that ${what}`);
}

const output = (state) => (state.serializedOutput === undefined || state.serializedOutput === "" ? undefined : JSON.parse(state.serializedOutput));

async function collect(pageable) {
  const all = [];
  for await (const one of pageable) all.push(one);
  return all;
}

module.exports = { assert, codeOf, collect, eventually, grpc, newWorker, output, pause, Scenario, OrchestrationStatus };
