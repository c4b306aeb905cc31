// Package hook receives webhooks: POST /hooks/{slug} adds an action of package
// [github.com/abidehq/abide/action], which runs at the next tick.
//
// A webhook is stored unchanged, with selected headers, and is durable before the response is
// sent. The body is not interpreted; that is the target's task. The response is
//
//   - 202 and the ID of the action, if it is new,
//   - 200 and the ID of the first one, if the delivery was received before,
//   - 204 if the hook does not select the type of its event (see [Hook.Events]),
//   - 404 for a slug that no hook has, 405 for another method than POST,
//   - 429 if it sends more than the hook allows,
//   - 413 if the body is too large, 408 if it takes too long, 400 if it ends too early,
//   - 401 if the signature is missing, wrong or stale: which of them, the log tells,
//   - 400 if the delivery has no name although its sender should give it one,
//   - 503 if it could not be stored. Then it may have been: the sender sends it again.
//
// Each refusal is a problem of RFC 9457, in JSON, with a code that stays the same.
//
// Senders are authenticated by a signature, see [Verifier]. What a signature does not cover is
// not authenticated. GitHub signs the body only, so that a recorded request can be replayed with
// another delivery ID; the other schemes sign the time too.
package hook
