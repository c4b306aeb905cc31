// Package webhookbus publishes envelopes as webhooks: each envelope is posted to a URL as a
// CloudEvent 1.0, and accepted by a response of 2xx.
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
// Against server-side request forgery, addresses that are not public are refused after the name
// is resolved and before a connection is made, unless they are allowed; redirects are not
// followed, and proxies of the environment are not used.
//
// The bus does not retry. Package [github.com/abidehq/abide/bus/outbox] does, for errors that
// are retryable.
package webhookbus
