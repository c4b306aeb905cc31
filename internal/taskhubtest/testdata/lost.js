// A worker that is lost: its activity says that it has begun, and never ends.
//
//   node lost.js ADDRESS HUB
"use strict";

const { newWorker } = require("./kit");

const [address, hub] = process.argv.slice(2);
const code = {
  orchestrators: {
    a: async function* (ctx) {
      return yield ctx.callActivity("where");
    },
  },
  activities: {
    where: () => {
      process.stdout.write("begun\n");
      return new Promise(() => {});
    },
  },
};
newWorker(address, hub, code).start();
