// Runs scenarios against a server, all at once, and prints a line of JSON for each: its name, whether it is ok, its
// error, and how many milliseconds it took.
//
//   node runner.js ADDRESS [--kills] [NAME...]
//
// Without names it runs them all, or with --kills those that end well while the server is killed again and again:
// the names in `survives`. The first of them is run before the others: a worker connects again by itself only after
// it was connected once. The others begin one after the other, so that the server is killed at different points of
// them.
"use strict";

const { newWorker, pause, Scenario } = require("./kit");

const parts = [require("./orchestrations"), require("./clients"), require("./workers"), require("./entities")];
const merged = (key) => Object.assign({}, ...parts.map((p) => p[key]));
const code = { orchestrators: merged("orchestrators"), activities: merged("activities"), entities: merged("entities") };
const scenarios = merged("scenarios");

async function play(name, address, kills) {
  const begun = Date.now();
  const scenario = new Scenario(name, address, kills);
  const result = { name, ok: true };
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("it takes too long")), kills ? 100_000 : 40_000);
  });
  try {
    await Promise.race([scenarios[name](scenario), late]);
  } catch (e) {
    result.ok = false;
    result.error = e.stack ?? String(e);
  }
  clearTimeout(timer);
  result.ms = Date.now() - begun;
  process.stdout.write(JSON.stringify(result) + "\n");
  await scenario.end().catch(() => {}); // the process ends soon
}

async function main([address, ...rest]) {
  const kills = rest[0] === "--kills";
  let names = kills ? rest.slice(1) : rest;
  if (names.length === 0) names = kills ? parts.flatMap((p) => p.survives) : Object.keys(scenarios);
  const worker = newWorker(address, "default", code);
  await worker.start();
  if (kills) await play(names.shift(), address, kills);
  await Promise.all(
    names.map(async (name, i) => {
      if (kills) await pause(250 * i);
      await play(name, address, kills);
    }),
  );
  await Promise.race([worker.stop(), new Promise((resolve) => setTimeout(resolve, 5_000))]);
  process.exit(0);
}

main(process.argv.slice(2)).catch((e) => {
  console.error(e);
  process.exit(1);
});
