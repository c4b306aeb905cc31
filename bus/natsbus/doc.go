// Package natsbus publishes envelopes to NATS JetStream, and consumes commands from it.
//
// [Bus] publishes an envelope in its JSON form under the subject
//
//	<prefix>.events.<tenant>.<type>
//
// with its ID as the message ID (Nats-Msg-Id), so that the stream drops an envelope
// that is published again within its duplicate window. In a subject, tenant and type
// are one token each: letters and digits of ASCII, _ and - stand for themselves, and
// every other byte is written as %XX, its value in hexadecimal capitals. The tenant
// a.b has the token a%2Eb, and no two tenants have the same.
//
// [Consume] reads envelopes that others have published under
//
//	<prefix>.commands.<tenant>.>
//
// and gives each to a handler until it has been handled. A command acts for the tenant in its
// envelope; the one in the subject, with the token of the form above, says whose a message is
// that is no envelope. It may be left out or be followed by more tokens: all of
// <prefix>.commands.> is read.
//
// Streams and consumers that are missing are created. Those that exist are never
// changed, so replicas, limits and retention are the operator's: who wants other
// values than the defaults creates them before. An envelope that was accepted is as
// durable as the stream is: by default a server on its own acknowledges what it has
// written and syncs it within two minutes, so that it survives a crash of the server
// but not one of the machine; sync_interval: always and replicas make it so.
package natsbus
