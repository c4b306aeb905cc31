package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/timer"
)

// SinkName is where the events of the demo's timers go.
const SinkName = "demo"

// tenants are those of the demo.
var tenants = []string{"demo-north", "demo-south"}

// IsTenant reports whether a tenant is one of the demo's, whose events go nowhere else.
func IsTenant(name string) bool { return slices.Contains(tenants, name) }

// Sink takes events to the log.
type Sink struct{ Logger *slog.Logger }

var _ bus.EventBus = Sink{}

// Publish accepts everything.
func (s Sink) Publish(ctx context.Context, envelopes []bus.Envelope) error {
	for i := range envelopes {
		e := &envelopes[i]
		s.Logger.DebugContext(ctx, "demo event", "type", e.Type, "tenant", e.TenantID, "id", e.ID)
	}
	return nil
}

// remind schedules a timer for each tenant; now and then one is moved, or cancelled.
func remind(ctx context.Context, timers *timer.Service, n int64) error {
	var requests []timer.Request
	for i, tenant := range tenants {
		payload, err := json.Marshal(map[string]any{"remind": "a customer", "of": items[(n+int64(i))%int64(len(items))]})
		if err != nil {
			return err
		}
		requests = append(requests, timer.Request{
			Tenant: tenant, Key: fmt.Sprintf("reminder-%d", n), Payload: payload,
			Delay: time.Duration(5+(n+int64(7*i))%40) * time.Second, CorrelationID: fmt.Sprintf("order-%d", n-1),
		})
	}
	if _, err := timers.ScheduleAll(ctx, requests); err != nil {
		return err
	}
	var err error
	switch before := fmt.Sprintf("reminder-%d", n-4); {
	case n%15 == 0:
		_, err = timers.Snooze(ctx, tenants[0], before, time.Minute)
	case n%25 == 0:
		_, err = timers.Cancel(ctx, tenants[1], before)
	}
	if errors.Is(err, timer.ErrNotFound) || errors.Is(err, timer.ErrState) {
		return nil // it was not scheduled, or has fired
	}
	return err
}
