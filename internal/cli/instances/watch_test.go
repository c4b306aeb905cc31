package instances

import (
	"testing"
	"time"

	"github.com/abidehq/abide"
)

// What a server tells of is compared with the filter here.
func TestWatchedInstancesMatch(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	info := abide.Info{
		Ref: abide.Ref{Tenant: abide.DefaultTenant, ID: "a"}, Orchestration: "order", Status: abide.Running, StartedAt: at, Tags: map[string]string{"customer": "7"},
	}
	tenant, other := "default", "acme"
	for _, tt := range []struct {
		name   string
		filter abide.Filter
		want   bool
	}{
		{"everything", abide.Filter{}, true},
		{"the default tenant", abide.Filter{Tenant: &tenant}, true},
		{"another tenant", abide.Filter{Tenant: &other}, false},
		{"orchestration", abide.Filter{Orchestrations: []string{"mail", "order"}}, true},
		{"another orchestration", abide.Filter{Orchestrations: []string{"mail"}}, false},
		{"status", abide.Filter{Statuses: []abide.Status{abide.Running}}, true},
		{"another status", abide.Filter{Statuses: []abide.Status{abide.Failed}}, false},
		{"from", abide.Filter{From: at}, true},
		{"later", abide.Filter{From: at.Add(1)}, false},
		{"to", abide.Filter{To: at.Add(1)}, true},
		{"before", abide.Filter{To: at}, false},
		{"tag", abide.Filter{Tags: map[string]string{"customer": "7"}}, true},
		{"another tag", abide.Filter{Tags: map[string]string{"customer": "8"}}, false},
		{"a tag that it has not", abide.Filter{Tags: map[string]string{"x": ""}}, false},
	} {
		w := &instancesWatch{filter: tt.filter}
		if got := w.matches(&info); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
