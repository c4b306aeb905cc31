// A client: it starts an order, waits for it, and prints its result.
const { TaskHubGrpcClient } = require("@microsoft/durabletask-js");

const client = new TaskHubGrpcClient({ hostAddress: process.env.ABIDE ?? "localhost:7172" });

async function main() {
  const id = await client.scheduleNewOrchestration("order", { item: "teapot", amount: 12 });
  console.log(`started ${id}`);
  const state = await client.waitForOrchestrationCompletion(id, true, 60);
  console.log(`result: ${state.serializedOutput}`);
  await client.stop();
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
