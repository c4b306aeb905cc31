package abide_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/teststore"
)

// TestAWorkerIsListedByItsHostAndProcess, unless it says otherwise or registers nothing.
func TestAWorkerIsListedByItsHostAndProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := teststore.New(t)
		defer s.Close()
		var engines []*abide.Engine
		defer func() {
			for _, e := range engines {
				_ = e.Close()
			}
		}()
		for _, cfg := range []abide.Config{{Register: []abide.Definition{watched}}, {Register: []abide.Definition{watched}, Unlisted: true, WorkerName: "x"}, {}} {
			e, err := abide.New(s, cfg)
			if err != nil {
				t.Fatal(err)
			}
			engines = append(engines, e)
		}
		<-time.After(time.Second)
		synctest.Wait()
		workers, err := abide.NewClient(s, nil).Workers(t.Context())
		if err != nil || len(workers) != 1 || workers[0].Name != fmt.Sprintf("%s:%d", workers[0].Host, os.Getpid()) {
			t.Errorf("workers: %+v, %v", workers, err)
		}
	})
}

// TestWorkers: processes with a name know of each other, and of what nobody serves.
func TestWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := teststore.New(t)
		defer s.Close()
		mail := abide.NewActivity("mail", func(context.Context, string) (string, error) { return "", nil })
		open := func(name string, serve ...abide.Definition) *abide.Engine {
			e, err := abide.New(s, abide.Config{WorkerName: name, Unlisted: name == "", Register: serve})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		one := open("one", tenantKid, watched)
		two := open("two", mail)
		<-time.After(time.Second)
		synctest.Wait()

		client := abide.NewClient(s, nil)
		workers, err := client.Workers(t.Context())
		if err != nil || len(workers) != 2 {
			t.Fatalf("workers: %+v, %v", workers, err)
		}
		slices.SortFunc(workers, func(a, b abide.Worker) int { return strings.Compare(a.Name, b.Name) })
		w := workers[0]
		if w.Name != "one" || w.PID != os.Getpid() || w.ID == workers[1].ID || w.SeenAt.IsZero() || w.StartedAt.IsZero() ||
			!slices.Equal(w.Orchestrations, []string{"kid", "watched@3"}) || len(w.Activities) > 0 {
			t.Errorf("worker: %+v", w)
		}
		if !slices.Equal(workers[1].Activities, []string{"mail"}) || len(workers[1].Orchestrations) > 0 {
			t.Errorf("worker: %+v", workers[1])
		}

		start := func(o *abide.Orchestration[string, string], options ...abide.StartOption) {
			t.Helper()
			if _, err := o.Start(t.Context(), client, "", append(options, abide.Unchecked())...); err != nil {
				t.Fatal(err)
			}
		}
		start(tenantFlow)
		start(abide.OrchestrationNamed[string, string]("nobodys"))
		start(abide.OrchestrationNamed[string, string]("later"), abide.StartAfter(time.Hour))
		unserved := func(c *abide.Client) string {
			rows, err := c.Unserved(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var routes []string
			for _, r := range rows {
				routes = append(routes, r.Route)
				if r.Activity || r.Pending != 1 || r.Oldest.IsZero() {
					t.Errorf("unserved: %+v", r)
				}
			}
			return strings.Join(routes, " ")
		}
		check := func(when string, c *abide.Client, want string) {
			t.Helper()
			if got := unserved(c); got != want {
				t.Errorf("%s, unserved are %q, want %q", when, got, want)
			}
		}
		check("to a client", client, "flow nobodys")
		check("to a worker", two.Client, "flow nobodys")
		quiet := open("", tenantFlow)
		defer func() { _ = quiet.Close() }()
		synctest.Wait()
		check("to an engine without a name", quiet.Client, "nobodys")
		if err := one.Close(); err != nil {
			t.Error(err)
		}
		start(tenantKid)
		check("when a worker has ended", client, "kid nobodys")
		if workers, err = client.Workers(t.Context()); err != nil || len(workers) != 1 {
			t.Errorf("workers: %+v, %v", workers, err)
		}
		if err := two.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWorkerNames are checked when the engine is opened.
func TestWorkerNames(t *testing.T) {
	t.Parallel()
	s := teststore.New(t)
	defer s.Close()
	for name, words := range map[string]string{
		strings.Repeat("x", 129): "at most 128",
		"a\xff":                  "must be UTF-8",
	} {
		_, err := abide.New(s, abide.Config{WorkerName: name})
		refuses(t, err, abide.ErrInvalid, "Worker", words)
	}
}
