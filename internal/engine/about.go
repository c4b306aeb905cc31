package engine

import (
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/store"
)

// Names of what log lines say about an instance. They are the same everywhere.
const (
	LogTenant        = "tenant"
	LogInstance      = "instance"
	LogOrchestration = "orchestration" // name, or name@version
	LogExecution     = "execution"
	LogTrace         = "trace_id"
	LogSpan          = "span_id"
)

// DefaultTenant is what the empty tenant is called where people read it.
const DefaultTenant = "default"

// tenantName returns the tenant for people.
func (r Ref) tenantName() string {
	if r.Tenant == "" {
		return DefaultTenant
	}
	return r.Tenant
}

// About returns what a log line says about an instance, as far as it is known.
func About(ref Ref, route string, execution int32) []any {
	about := append(make([]any, 0, 8), slog.String(LogTenant, ref.tenantName()), slog.String(LogInstance, ref.ID))
	if route != "" {
		about = append(about, slog.String(LogOrchestration, route))
	}
	if execution > 0 {
		about = append(about, slog.Int(LogExecution, int(execution)))
	}
	return about
}

// AboutSpan returns what a log line says about the span in whose context it is written:
// nothing if there is none.
func AboutSpan(sc trace.SpanContext) []slog.Attr {
	if !sc.IsValid() {
		return nil
	}
	return []slog.Attr{slog.String(LogTrace, sc.TraceID().String()), slog.String(LogSpan, sc.SpanID().String())}
}

// about returns what a log line says that concerns an instance and its span.
func about(ref Ref, route string, execution int32, s span) slog.Attr {
	words := About(ref, route, execution)
	if s.valid() {
		words = append(words, slog.String(LogTrace, s.trace.String()), slog.String(LogSpan, s.id.String()))
	}
	return slog.Group("", words...)
}

// about returns what is known of the turn's instance.
func (t *turn) about() slog.Attr {
	if t.in == nil {
		return aboutClaim(t.claim)
	}
	info := &t.in.info
	return about(info.Ref, info.Route(), info.Execution, t.under())
}

// about returns what is known of the instance.
func (i *Info) about() slog.Attr { return about(i.Ref, i.Route(), i.Execution, i.origin) }

// about returns what is known of the attempt and of who asked for it.
func (t *Task) about() slog.Attr {
	under := t.spec.under
	if t.span != nil && t.span.SpanContext().IsValid() {
		under = spanOf(t.span.SpanContext())
	}
	return slog.Group("", about(t.Ref, t.spec.route, t.Execution, under), slog.String("activity", t.Name), slog.Int("attempt", t.Attempt))
}

// aboutClaim returns what is known of a claim before it was looked into.
func aboutClaim(c *store.Claim) slog.Attr { return aboutKey(c.Key, c.Route) }

func aboutKey(key store.Key, route string) slog.Attr {
	if key.Queue == QueueActivities {
		return slog.Group("", slog.String(LogTenant, Ref{Tenant: key.Tenant}.tenantName()), slog.String("task", key.Name), slog.String("activity", route))
	}
	if key.Queue == QueueEntities {
		return slog.Group("", slog.String(LogTenant, Ref{Tenant: key.Tenant}.tenantName()), slog.String("entity", key.Name))
	}
	if key.Queue != queueTurns || route == routeParked || route == routeLimited || route == routeEnded {
		route = ""
	}
	return slog.Group("", About(refOf(key), route, 0)...)
}
