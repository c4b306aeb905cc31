package web

import (
	"encoding/json"
	"strings"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
)

// startVerb starts an instance.
func (s *site) startVerb() verb {
	return verb{
		pattern: "/instances/new", section: "instances", operation: "start-instance",
		form: func(r *request) (form, error) {
			sc, err := r.scope()
			if err != nil {
				return form{}, err
			}
			tenant := field{Name: "tenant", Label: "Tenant", Kind: "text", Value: sc.Asked, Example: abide.DefaultTenant}
			if sc.Choices != nil {
				tenant.Kind, tenant.Options = "choice", options(sc.Choices...)
			}
			input := field{Name: "input", Label: "Input", Kind: "code", Value: r.value("input"), Example: `{"order": 17}`, Help: "JSON. Empty means none."}
			input = expected(input, s.inputSchema(r, r.value("orchestration")))
			return form{
				Title: "Start an instance", Submit: "Start", Back: s.path("/instances"),
				Text: "It is durable when this form is answered. A process that serves its orchestration does the rest.",
				Fields: []field{
					{Name: "orchestration", Label: "Orchestration", Kind: "text", Required: true, Value: r.value("orchestration"), Options: options(s.orchestrations(r)...), Help: "Its name, or name@version."},
					{Name: "id", Label: "ID", Kind: "text", Value: r.value("id"), Help: "A start with an ID that exists shows the instance that is there. Empty means a random one."},
					tenant,
					input,
					{Name: "at", More: true, Label: "Begin at", Kind: "text", Value: r.value("at"), Example: "now", Help: timeHelp + "."},
					{Name: "tags", More: true, Label: "Tags", Kind: "text", Value: r.value("tags"), Example: "customer=17 plan=pro", Help: "name=value, with spaces between them."},
					uncheckedField("Start it although no worker has registered it, and with any input"),
				},
			}, nil
		},
		apply: func(r *request) (done, error) {
			tenant := tenantName(r.value("tenant"))
			d := done{target: tenant + "/" + r.value("id"), notice: "started"}
			if err := r.allow(tenant); err != nil {
				return d, err
			}
			request, err := s.prepareStart(r, tenant)
			if err != nil {
				return d, err
			}
			started, err := s.engine.Start(r.ctx(), request)
			if err != nil {
				return d, err
			}
			d.target = tenant + "/" + started[0].Ref.ID
			d.to = s.path(instancePath(started[0].Ref))
			switch {
			case started[0].Existed:
				d.notice = "existed"
			case started[0].Unserved:
				d.notice = "started-unserved"
			}
			return d, nil
		},
	}
}

// prepareStart returns the start that a form asks for.
func (s *site) prepareStart(r *request, tenant string) (abide.StartRequest, error) {
	opts := []abide.StartOption{abide.Tenant(tenant)}
	input, err := parseJSON("Input", r.value("input"))
	if err != nil {
		return abide.StartRequest{}, err
	}
	at, err := parseTime("Begin at", r.value("at"), r.now())
	if err != nil {
		return abide.StartRequest{}, err
	}
	if r.value("unchecked") != "" {
		opts = append(opts, abide.Unchecked())
	}
	if !at.IsZero() {
		opts = append(opts, abide.StartAt(at))
	}
	if id := r.value("id"); id != "" {
		opts = append(opts, abide.ID(id))
	}
	for tag := range strings.FieldsSeq(r.value("tags")) {
		name, value, err := api.ParseTyped(tag)
		if err != nil {
			return abide.StartRequest{}, mistake("Tags: " + err.Error())
		}
		opts = append(opts, abide.Tag(name, value))
	}
	name, version, _ := strings.Cut(r.value("orchestration"), "@")
	if input == nil {
		return abide.OrchestrationNamed[abide.None, abide.None](name, abide.Version(version)).Prepare(s.engine, abide.None{}, opts...)
	}
	return abide.OrchestrationNamed[json.RawMessage, abide.None](name, abide.Version(version)).Prepare(s.engine, input, opts...)
}
