package web

import (
	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
)

// term is a word of the page, and what it means.
type term struct{ Word, Means string }

// glossary explains the words of the page.
var glossary = []term{
	{"Orchestration", "A durable function: a workflow, in the words of other systems. An instance is one run of it."},
	{"Turn", "One step of an instance: its code runs until it has to wait, and what it decided is committed."},
	{"Activity", "A function that does the work outside of the orchestration. It is retried until it succeeds or fails for good."},
	{"Event", "A message to an instance, by name. It is kept until the instance receives it."},
	{"Stalled", "The code of the instance cannot continue: it panicked, or does not fit its history. Deploy a build that does, then resume it."},
	{"Suspended", "An operator has paused the instance. Resume continues it."},
	{"Tenant", "The owner of instances, timers and actions. Names are unique within a tenant."},
	{"Tenant timer", "A timer outside of any instance. When it fires, an envelope goes to its sinks."},
	{"Arming", "Each time a timer is set: scheduling it again is another arming."},
	{"Sink", "Where envelopes of tenant timers are published, such as a message broker."},
	{"Envelope", "The message that a tenant timer sends when it fires."},
	{"Slug", "The short name of what an action is for, such as billing. Webhooks arrive at /hooks/ and the slug."},
	{"Target", "What runs an action: a command, an HTTP request or a function, by its name in the configuration of a worker."},
	{"Route", "What a worker has to serve to handle a message: an orchestration with its version, an activity, or a target."},
	{"Build", "A program as it was compiled. Instances may be pinned to one: only workers of it run their code."},
	{"Limit", "How many activities and instances may be under way at a time, or begin in a period, over all processes. It may have one for each key."},
	{"Shard", "One of the databases that a store consists of. Each tenant is on one of them, by its slot or because it was moved there."},
	{"Quarantine", "Messages that could not be handled. Redrive puts one back into its queue."},
}

// alarms returns how much needs a person in a section, and what it is. It is a hint: what
// cannot be counted is not shown, and the page of the section says why.
func (s *site) alarms(r *request, name string) (int, string) {
	var n int
	var err error
	var what string
	switch name {
	case "instances":
		n, err = r.count(kindInstance, string(abide.Stalled))
		what = "stalled"
	case "quarantine":
		n, err = r.count(store.KindQuarantine)
		what = "quarantined"
	case "workers":
		n, err = s.unservedLately(r.ctx())
		what = "unserved"
	default:
		return 0, ""
	}
	if err != nil {
		return 0, ""
	}
	return n, what
}
