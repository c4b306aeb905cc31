// A worker: it runs the code of orders until it is stopped. Start as many as you like.
const { TaskHubGrpcWorker } = require("@microsoft/durabletask-js");

const worker = new TaskHubGrpcWorker({ hostAddress: process.env.ABIDE ?? "localhost:7172" });

// Activities talk to the world. Each runs at least once.
worker.addNamedActivity("charge", async (_, order) => {
  console.log(`charging ${order.amount} for ${order.item}`);
  return `receipt-${order.item}`;
});
worker.addNamedActivity("ship", async (_, order) => console.log(`shipping ${order.item}`));

// The orchestration survives crashes and restarts of this program and of the server, also while it waits.
worker.addNamedOrchestrator("order", async function* (ctx, order) {
  const receipt = yield ctx.callActivity("charge", order);
  ctx.setCustomStatus("charged, waiting until the parcel is packed");
  yield ctx.createTimer(10); // seconds
  yield ctx.callActivity("ship", order);
  return receipt;
});

worker.start().then(() => console.log("worker runs; stop it with Ctrl+C"));
process.on("SIGINT", () => worker.stop().then(() => process.exit(0)));
