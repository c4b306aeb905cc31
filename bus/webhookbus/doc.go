// Package webhookbus takes envelopes to a receiver on the web: each one is a CloudEvent
// 1.0 that is posted to a URL, and accepted by an answer of 2xx.
//
// An envelope becomes an event like this:
//
//	id               the envelope's ID
//	type             its type
//	source           [Config.Source]
//	subject          serviceCallId of the payload, if it is an object that has one
//	time             its time, with milliseconds
//	datacontenttype  application/json
//	tenantid         the tenant
//	correlationid    the correlation ID, if there is one
//	data             the payload
//
// With [Config.Secrets] a request is signed as the specification Standard Webhooks says;
// webhook-id is the envelope's ID, so that a receiver recognises what it has seen
// already. The signature is that of the body: in mode [Structured] it holds the whole
// event, in mode [Binary] only the payload, and not the tenant.
//
// Whoever may choose the URL must not reach what only this machine can reach. So an
// address that is not public is refused, after its name was resolved and before a
// connection is made, unless it is allowed; redirects are not followed, and proxies
// of the environment are not used.
//
// Nothing is tried twice here. That is up to
// [github.com/abidehq/abide/bus/outbox], which is told whether it is worth it.
package webhookbus
