// Runs scenarios against a server, all at once, and prints a line of JSON for each: its name, whether it is ok, its
// error, how often it was run, and how many milliseconds that took.
//
//   node runner.js ADDRESS [--kills] [NAME...]
//
// Without names it runs them all, or with --kills those that end well while the server is killed again and again:
// the names in `survives`. The first of them is run before the others: a worker connects again by itself only after
// it was connected once. Each of the others is run again and again for some seconds, so that the server is killed at
// many points of it.
"use strict";

const { newWorker, pause, Scenario } = require("./kit");

const parts = [require("./orchestrations"), require("./clients"), require("./workers"), require("./entities")];
const merged = (key) => Object.assign({}, ...parts.map((p) => p[key]));
const code = { orchestrators: merged("orchestrators"), activities: merged("activities"), entities: merged("entities") };
const scenarios = merged("scenarios");

// once runs a scenario.
async function once(name, address, kills) {
  const scenario = new Scenario(name, address, kills);
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("it takes too long")), kills ? 60_000 : 40_000);
  });
  try {
    await Promise.race([scenarios[name](scenario), late]);
  } finally {
    clearTimeout(timer);
    scenario.end().catch(() => {}); // the process ends soon
  }
}

// play runs a scenario, again and again for a time, and prints the result.
async function play(name, address, kills, ms) {
  const begun = Date.now();
  const result = { name, ok: true, runs: 0 };
  try {
    do {
      await once(name, address, kills);
      result.runs++;
      if (ms > 0) await pause(100);
    } while (Date.now() < begun + ms);
  } catch (e) {
    result.ok = false;
    result.error = e.stack ?? String(e);
  }
  result.ms = Date.now() - begun;
  process.stdout.write(JSON.stringify(result) + "\n");
}

async function main([address, ...rest]) {
  const kills = rest[0] === "--kills";
  let names = kills ? rest.slice(1) : rest;
  if (names.length === 0) names = kills ? parts.flatMap((p) => p.survives) : Object.keys(scenarios);
  const worker = newWorker(address, "default", code);
  await worker.start();
  if (kills) await play(names.shift(), address, kills, 0);
  await Promise.all(names.map((name) => play(name, address, kills, kills ? 15_000 : 0)));
  // A worker that is stopping does not handle the error of a lost connection.
  if (!kills) await Promise.race([worker.stop(), new Promise((resolve) => setTimeout(resolve, 5_000))]);
  process.exit(0);
}

main(process.argv.slice(2)).catch((e) => {
  console.error(e);
  process.exit(1);
});
