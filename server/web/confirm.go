package web

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// countPatience is how long a form counts the instances that match. A filter by orchestration
// or tag may cost a look at each instance of the store.
const countPatience = 500 * time.Millisecond

// countMatching returns how many instances match a search, countCap at most. If they could not
// be counted in countPatience, it is not known.
func (r *request) countMatching(q search) (n int, known bool, err error) {
	f, err := q.filter(r.now())
	if err != nil {
		return 0, false, err
	}
	query := store.Query{
		Kind: kindInstance, Names: f.Orchestrations, Statuses: q.Statuses, From: f.From, To: f.To,
		Tags: base.WithBuild(base.WithParent(f.Tags, f.Parent), f.Build), Prefix: f.Prefix,
	}
	if f.Tenant != nil {
		query.Tenant = &tenantsOf(kindInstance, tenantName(*f.Tenant))[0]
	}
	ctx, cancel := context.WithTimeout(r.ctx(), countPatience)
	defer cancel()
	n, err = r.site.cfg.Store.Count(ctx, query, countCap)
	if errors.Is(err, context.DeadlineExceeded) && r.ctx().Err() == nil {
		return 0, false, nil
	}
	return n, err == nil, err
}

// matchingWords returns a number of instances that match.
func matchingWords(n int, known bool) string {
	switch {
	case !known:
		return "all that match"
	case n >= countCap:
		return number(countCap) + " or more instances"
	default:
		return plural(n, "instance", "instances")
	}
}

// confirmText is what has to be typed to change so many instances.
func confirmText(n int, known bool) string {
	if !known {
		return "all"
	}
	return strconv.Itoa(n)
}

// Narrow reports whether a search asks for more than a tenant.
func (q search) Narrow() bool {
	return q.Orchestration != "" || len(q.Statuses) > 0 || q.From != "" || q.To != "" || q.Tag != "" || q.Prefix != "" || q.Parent != "" || q.Build != ""
}

func confirmField(q search, n int, known bool) field {
	f := field{Name: "confirm", Label: "Type " + confirmText(n, known) + " to confirm", Kind: "text"}
	if q.Narrow() {
		f.Help = "Required to terminate and to delete."
	} else {
		f.Required = true
		f.Help = "Required, as there is no filter: " + q.words() + "."
	}
	return f
}

// confirmed returns an error if a change of all that match needs what the form has counted to
// be typed, and it was not.
func (r *request) confirmed(q search, k bulkKind) error {
	counted := r.value("counted")
	if counted == "0" {
		return mistake("No instance matches. Nothing was started.")
	}
	if q.Narrow() && k.Kind != "terminate" && k.Kind != "delete" {
		return nil
	}
	if typed := strings.ReplaceAll(r.value("confirm"), ",", ""); counted == "" || typed != counted {
		return mistake("Nothing was started. Type the number of instances to confirm.")
	}
	return nil
}
