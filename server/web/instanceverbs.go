package web

import (
	"context"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
)

// verbLinks returns what can be done to an instance in its status.
func (s *site) verbLinks(info abide.Info) []verbLink {
	base := s.path(instancePath(info.Ref))
	link := func(label, verb string, danger bool) verbLink {
		return verbLink{Label: label, Href: base + "/" + verb, Danger: danger}
	}
	var list []verbLink
	if info.Status == abide.Failed {
		list = append(list, link("Rewind", "rewind", false))
	}
	if info.Status.Ended() {
		return append(list, link("Restart", "restart", false), link("Delete", "delete", true))
	}
	list = append(list, link("Raise event", "raise", false))
	if info.BadPayload != nil {
		list = append(list, link("Correct payload", "correct", false))
	}
	switch info.Status {
	case abide.Suspended, abide.Stalled:
		list = append(list, link("Resume", "resume", false))
	default:
		list = append(list, link("Suspend", "suspend", false))
	}
	return append(list, link("Cancel", "cancel", true), link("Terminate", "terminate", true))
}

// instanceVerbs are what can be done to one instance.
func (s *site) instanceVerbs() []verb {
	texts := map[string]string{
		"suspend": "It waits until it is resumed. What reaches it meanwhile is kept, and timers that are due wait.",
		"resume":  "It goes on from where it is. If it has stalled, its code should have been mended first, or it stalls again.",
		"cancel":  "Its code is asked to come to an end, and decides how: what it waits for is given up, and it may undo what it did.",
		"terminate": "It ends at once, without asking its code. Nothing is undone, and nothing that it has begun elsewhere is taken back. " +
			"Cancel asks first, and is the better choice unless its code cannot answer.",
		"restart": "It starts once more with the same input, under the same ID. Its old history goes.",
		"rewind": "It goes on from before its failure, with its history: activities whose failures it failed of run again, failed children are rewound " +
			"too, and its last turn runs again. What has succeeded does not. A parent that was told of the failure is not informed.",
		"delete": "It is removed with its history, for good.",
	}
	notice := map[string]string{
		"suspend": "suspended", "resume": "resumed", "cancel": "cancelling", "terminate": "terminated", "restart": "restarted",
		"rewind": "rewound", "delete": "deleted",
	}
	var verbs []verb
	for _, k := range bulkKinds {
		kind := k.Kind
		verbs = append(verbs, verb{
			pattern: "/instances/{tenant}/{id}/" + kind, section: "instances", operation: kind + "-instance",
			form: func(r *request) (form, error) {
				info, err := s.got(r)
				if err != nil {
					return form{}, err
				}
				f := form{
					Title: k.Label + " " + info.Ref.ID + "?", Text: texts[kind], Submit: k.Label, Danger: k.Danger,
					Back: s.path(instancePath(info.Ref)),
				}
				if kind == "suspend" || kind == "cancel" || kind == "terminate" || kind == "rewind" {
					f.Fields = []field{reasonField()}
				}
				if label := recursiveLabels[kind]; label != "" {
					f.Fields = append(f.Fields, field{Name: "recursive", Label: label, Kind: "check", Value: r.value("recursive")})
				}
				return f, nil
			},
			apply: func(r *request) (done, error) {
				ref, err := r.ref()
				if err != nil {
					return done{}, err
				}
				d := done{target: target(ref), to: s.path(instancePath(ref)), notice: notice[kind]}
				if kind == "delete" {
					d.to = s.path("/instances")
				}
				if r.value("recursive") != "" {
					return d, s.changeFamily(r.ctx(), kind, ref, r.value("reason"))
				}
				return d, s.change(r.ctx(), kind, ref, r.value("reason"))
			},
		})
	}
	return append(verbs, s.raiseVerb(), s.correctVerb(), s.forkVerb(), s.moveVerb())
}

// recursiveLabels are those of the boxes of the changes that can be made to an instance together with its children.
var recursiveLabels = map[string]string{
	"terminate": "Terminate the children that it waits for too, and theirs",
	"delete":    "Delete its children that have ended too, and theirs",
}

// changeFamily makes a change that has one of recursiveLabels to an instance and its children.
func (s *site) changeFamily(ctx context.Context, kind string, ref abide.Ref, why string) error {
	switch kind {
	case "terminate":
		return s.engine.TerminateWith(ctx, ref, abide.Termination{Reason: why, Recursive: true})
	case "delete":
		return s.engine.DeleteWith(ctx, ref, abide.Deletion{Recursive: true})
	default:
		return mistake("This cannot be done to its children too.")
	}
}

// target returns an instance for the audit log.
func target(ref abide.Ref) string { return ref.Tenant + "/" + ref.ID }

// got returns the instance in the path.
func (s *site) got(r *request) (abide.Info, error) {
	ref, err := r.ref()
	if err != nil {
		return abide.Info{}, err
	}
	return s.engine.Get(r.ctx(), ref)
}

func (s *site) forkVerb() verb {
	return verb{
		pattern: "/instances/{tenant}/{id}/fork", section: "instances", operation: "fork-instance",
		form: func(r *request) (form, error) {
			info, err := s.got(r)
			if err != nil {
				return form{}, err
			}
			return form{
				Title: "Fork " + info.Ref.ID, Submit: "Fork", Back: s.path(instancePath(info.Ref)),
				Text: "A new instance begins with the history of this one, up to and with the event, and goes its own way from there. " +
					"What it waits for there is asked for once more. This one is not touched.",
				Fields: []field{
					{Name: "event", Label: "Up to event", Kind: "text", Required: true, Value: r.value("event"), Help: "Its number in the list of events."},
					{Name: "new", Label: "ID of the new instance", Kind: "text", Value: r.value("new"), Help: "Empty means a random one."},
				},
			}, nil
		},
		apply: func(r *request) (done, error) {
			ref, err := r.ref()
			if err != nil {
				return done{}, err
			}
			d := done{target: target(ref), notice: "forked"}
			event, err := parseCount("Up to event", r.value("event"))
			if err != nil {
				return d, err
			}
			fork, err := s.engine.Fork(r.ctx(), ref, event, r.value("new"))
			d.to = s.path(instancePath(fork))
			return d, err
		},
	}
}

// moveVerb gives a timer that an instance waits for another time.
func (s *site) moveVerb() verb {
	return verb{
		pattern: "/instances/{tenant}/{id}/move", section: "instances", operation: "move-instance-timer",
		form: func(r *request) (form, error) {
			info, err := s.got(r)
			if err != nil {
				return form{}, err
			}
			now, err := s.dueWords(r, info.Ref, r.value("timer"))
			if err != nil {
				return form{}, err
			}
			return form{
				Title: "Move a timer", Submit: "Move", Back: s.path(instancePath(info.Ref)),
				Text: now + "All pending timers of that name get the new time. One in the past fires at once.",
				Fields: []field{
					{Name: "timer", Label: "Timer", Kind: "text", Required: true, Value: r.value("timer"), Help: "Its name."},
					whenField(r.value("at")),
				},
			}, nil
		},
		apply: func(r *request) (done, error) {
			ref, err := r.ref()
			if err != nil {
				return done{}, err
			}
			d := done{target: target(ref), to: s.path(instancePath(ref)), notice: "moved"}
			at, err := requireTime(r, "at")
			if err != nil {
				return d, err
			}
			return d, s.engine.MoveTimer(r.ctx(), ref, r.value("timer"), at)
		},
	}
}

// dueWords says when the first pending timer of a name is due; nothing if there is none.
func (s *site) dueWords(r *request, ref abide.Ref, name string) (string, error) {
	waits, err := s.engine.Waits(r.ctx(), ref)
	if err != nil || name == "" {
		return "", err
	}
	var first time.Time
	for i := range waits {
		if w := &waits[i]; w.Kind == history.TimerCreated && w.Name == name && (first.IsZero() || w.At.Before(first)) {
			first = w.At
		}
	}
	if first.IsZero() {
		return "", nil
	}
	return "Now it is due at " + first.UTC().Format("2006-01-02 15:04:05") + " UTC. ", nil
}

func whenField(value string) field {
	return field{Name: "at", Label: "When", Kind: "text", Required: true, Value: value, Example: "+10m", Help: timeHelp + "."}
}

// requireTime returns the time in a field that must not be empty.
func requireTime(r *request, name string) (time.Time, error) {
	at, err := parseTime("When", r.value(name), r.now())
	if err == nil && at.IsZero() {
		err = mistake("When? Write it like this: " + timeHelp + ".")
	}
	return at, err
}
