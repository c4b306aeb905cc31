package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

var order = abide.NewOrchestration("order", func(ctx abide.Context, in json.RawMessage) (abide.None, error) {
	if strings.Contains(string(in), "declined") {
		err := abide.Sleep(ctx, 10*time.Millisecond)
		return abide.None{}, errors.Join(err, errors.New("the card was declined"))
	}
	return abide.None{}, abide.Sleep(ctx, time.Hour, abide.Named("reminder"))
})

// TestAnswersAreAsTheDocumentSays makes each operation succeed once, with the command that the
// page at /docs shows for it, and compares what comes back with the schema that the document has
// for it, and with the answer that the page shows.
func TestAnswersAreAsTheDocumentSays(t *testing.T) {
	t.Parallel()
	t.Run("with tokens", func(t *testing.T) {
		t.Parallel()
		recorded := playExamples(t, newOrders(t, true))
		if check.Updating() {
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			e.SetIndent("", "  ")
			check.OK(t, e.Encode(recorded))
			check.OK(t, os.WriteFile("examples.json", b.Bytes(), 0o644))
		}
	})
	t.Run("without", func(t *testing.T) {
		t.Parallel()
		w := newOrders(t, false)
		playExamples(t, w)
		page := w.do("nobody", "GET /docs", "").body
		if strings.Contains(page, "$ABIDE_TOKEN") {
			t.Error("the page of a server without tokens has commands with one")
		}
		if strings.Contains(page, "Version .") {
			t.Error("the page says no version")
		}
	})
	t.Run("with tokens that are not needed", func(t *testing.T) {
		t.Parallel()
		w := newWhole(t, func(c *server.Config) {
			everybody := auth.Identity{Kind: auth.Local, Subject: "local", Name: "local", Role: auth.Admin}
			var err error
			c.Auth, err = auth.New(auth.Config{Store: c.Store, Logger: c.Logger, Anonymous: &everybody})
			check.OK(t, err)
		})
		if page := w.do("nobody", "GET /docs", "").body; strings.Contains(page, "$ABIDE_TOKEN") {
			t.Error("commands have a token that the server does not need")
		}
	})
}

// newOrders returns a server of everything, with the orchestration of the examples.
func newOrders(t *testing.T, guarded bool) *whole {
	t.Helper()
	var timers *timer.Service
	w := newWhole(t, func(c *server.Config) {
		engine, err := abide.New(c.Store, abide.Config{Register: []abide.Definition{order, cart}, Logger: c.Logger, WorkerName: "shop"})
		check.OK(t, err)
		t.Cleanup(func() { _ = engine.Close() })
		timers, err = timer.New(timer.Config{Store: c.Store, Logger: c.Logger, Sinks: []outbox.Sink{{Name: "local", Bus: &bus.Local{}}}})
		check.OK(t, err)
		c.Engine, c.Timers, c.Store = engine, timers, sharded{backedUp{c.Store, nil}}
		if !guarded {
			c.Auth = nil
		}
		c.Version = ""
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- timers.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

// playExamples sends the examples, and returns them with the answers that came.
func playExamples(t *testing.T, w *whole) []server.Example {
	t.Helper()
	ids, commands := w.prepare(), w.commands()
	list, done, routes := slices.Clone(server.DocsExamples()), map[string]bool{}, map[string]bool{}
	for _, r := range w.routes() {
		routes[r.id] = true
	}
	for i := range list {
		e := &list[i]
		operation := w.operation(e.Request)
		if !routes[operation] {
			continue // it needs tokens
		}
		method, path, _ := strings.Cut(e.Request, " ")
		for name, id := range ids {
			path = strings.ReplaceAll(path, "{"+name+"}", id)
		}
		send := func() answer { return w.do("admin", method+" "+path, string(e.Body)) }
		if command := commands[operation]; !done[operation] && (command != "" || !check.Updating()) {
			send = func() answer { return w.run(strings.ReplaceAll(command, "'"+w.base+e.Path+"'", "'"+w.base+path+"'")) }
		}
		if strings.HasPrefix(operation, "stream-") {
			w.stream(commands[operation], check.Updating())
			done[operation], e.Operation, e.Path = true, operation, path
			continue
		}
		got := send()
		for e.Until != "" && got.object["status"] != e.Until && t.Context().Err() == nil {
			got = send()
		}
		if got.status < 200 || got.status >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, got.status, got.body)
		}
		if e.Keep != "" {
			ids[""], _ = got.object[e.Keep].(string)
		}
		w.conforms(e.Request, method+" "+path, got)
		if !check.Updating() && e.Status == got.status {
			sameShape(t, e.Request, e.Answer, []byte(got.body))
		} else if !check.Updating() {
			t.Errorf("%s: the docs show status %d, and the answer has %d", e.Request, e.Status, got.status)
		}
		done[operation], e.Operation, e.Path, e.Status, e.Answer = true, operation, path, got.status, recordable(got)
	}
	for operation := range routes {
		if !done[operation] {
			t.Errorf("%s has no example", operation)
		}
	}
	return list
}

// recordable returns an answer for the docs: without secrets and the name of this machine, and
// with the first two elements of lists.
func recordable(got answer) json.RawMessage {
	var v any
	if json.Unmarshal([]byte(got.body), &v) != nil {
		return nil
	}
	host, _ := os.Hostname()
	var shorten func(v any) any
	shorten = func(v any) any {
		switch v := v.(type) {
		case []any:
			v = v[:min(2, len(v))]
			for i := range v {
				v[i] = shorten(v[i])
			}
			return v
		case map[string]any:
			for name, field := range v {
				v[name] = shorten(field)
			}
		case string:
			if strings.HasPrefix(v, "abide_") {
				return "abide_…"
			}
			return strings.Replace(v, host+":", "shop:", 1)
		}
		return v
	}
	v = shorten(v)
	if fields, ok := v.(map[string]any); ok && len(fields) == 0 {
		return nil // nothing to show
	}
	text, _ := json.Marshal(v)
	return bytes.ReplaceAll(text, []byte(`"host":"`+host+`"`), []byte(`"host":"shop"`))
}

// sameShape compares an answer with the one of the docs, which must have no field that it has not.
func sameShape(t *testing.T, request string, want, got json.RawMessage) {
	t.Helper()
	var old, now any
	if len(want) == 0 {
		return
	}
	check.OK(t, json.Unmarshal(want, &old))
	check.OK(t, json.Unmarshal(got, &now))
	fields := shape("", now)
	for field := range shape("", old) {
		if !fields[field] {
			t.Errorf("%s: the docs show an answer with %s, which it does not have: go test ./server -run Answers -update\n%s", request, field, got)
		}
	}
}

// shape returns the paths of all fields of a value.
func shape(at string, v any) map[string]bool {
	all := map[string]bool{}
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			all[at+"."+name] = true
			maps.Copy(all, shape(at+"."+name, field))
		}
	case []any:
		for _, element := range v {
			maps.Copy(all, shape(at+"[]", element))
		}
	}
	return all
}

var shownCommand = regexp.MustCompile(`(?s)<article id="([^"]+)">.*?</article>`)

// commands returns the commands of the page at /docs, by operation.
func (w *whole) commands() map[string]string {
	w.t.Helper()
	page := w.do("nobody", "GET /docs", "").body
	commands := map[string]string{}
	for _, m := range shownCommand.FindAllStringSubmatch(page, -1) {
		if _, rest, ok := strings.Cut(m[0], `<pre class="curl"><code>`); ok {
			text, _, _ := strings.Cut(rest, "</code>")
			commands[m[1]] = html.UnescapeString(text)
		}
	}
	return commands
}

// shell returns a command of the page, for a shell that has a token.
func (w *whole) shell(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env = append(os.Environ(), "ABIDE_TOKEN="+w.tokens["admin"])
	return cmd
}

// run runs a command of the page.
func (w *whole) run(command string) answer {
	w.t.Helper()
	out, err := w.shell(w.t.Context(), strings.Replace(command, "curl ", `curl -s -w '\n%{http_code} %{content_type}' `, 1)).Output()
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	i := strings.LastIndexByte(string(out), '\n')
	a := answer{body: string(out[:i])}
	if _, err := fmt.Sscan(string(out[i+1:]), &a.status, &a.kind); err != nil && a.status == 0 {
		w.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	_ = json.Unmarshal([]byte(a.body), &a.object) // not all of them are objects
	return a
}

// stream runs a command of the page that does not end, until the answer has begun.
func (w *whole) stream(command string, missing bool) {
	w.t.Helper()
	if missing && command == "" {
		return
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	cmd := w.shell(ctx, "exec "+command+" -s -i")
	out, err := cmd.StdoutPipe()
	check.OK(w.t, err)
	check.OK(w.t, cmd.Start())
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "HTTP/1.1 200 ") {
		w.t.Errorf("%s: %q", command, lines.Text())
	}
	cancel()
	_ = cmd.Wait() // it was killed
}

// prepare makes what the script needs and no operation makes.
func (w *whole) prepare() map[string]string {
	w.t.Helper()
	a, _, err := w.actions.Receive(w.t.Context(), action.Received{Tenant: "default", Slug: "billing", Target: "report", Delivery: "1", Body: []byte("{}")})
	check.OK(w.t, err)
	ids := map[string]string{"delivery": a.ID, "worker": w.idler()}
	for _, name := range []string{"first", "second"} {
		m := store.Message{Key: store.Key{Queue: "outbox", Tenant: "acme", Name: "far/" + name}, ID: name, Body: []byte(name)}
		q := store.Quarantine(m, "far", store.ReasonAttempts, time.Now())
		check.OK(w.t, w.store.Commit(w.t.Context(), &store.Tx{PutRecords: []store.PutRecord{q}}))
		ids[name] = q.Record.Key.ID
	}
	check.OK(w.t, addPieces.Send(w.t.Context(), w.engine, "customer-7", 2))
	check.Eventually(w.t, "the entity exists", func() bool {
		_, ok, err := cart.Get(w.t.Context(), w.engine, "customer-7")
		check.OK(w.t, err)
		return ok
	})
	if w.do("nobody", "GET /api/v1/whoami", "").status == http.StatusOK {
		return ids // there is no login
	}
	w.login("reader")
	sessions, err := w.guard.Sessions(rootContext(w.t), auth.SessionQuery{})
	if err != nil || len(sessions.Sessions) != 1 {
		w.t.Fatal(sessions, err)
	}
	ids["session"] = sessions.Sessions[0].ID
	return ids
}

// cart is the entity of the examples.
var (
	cart      = abide.NewEntity[struct{ Pieces int }]("cart")
	addPieces = abide.NewOperation(cart, "add", func(_ abide.EntityContext, c *struct{ Pieces int }, n int) (int, error) {
		c.Pieces += n
		return c.Pieces, nil
	})
)

// idler returns the ID of the worker that serves idle.
func (w *whole) idler() string {
	w.t.Helper()
	id := ""
	check.Eventually(w.t, "the worker is listed", func() bool {
		workers, err := w.engine.Workers(w.t.Context())
		check.OK(w.t, err)
		for i := range workers {
			if slices.Contains(workers[i].Orchestrations, "idle") {
				id = workers[i].ID
			}
		}
		return id != ""
	})
	return id
}

// operation returns the operation of the document that a request is of, or nothing.
func (w *whole) operation(request string) string {
	w.t.Helper()
	method, path, _ := strings.Cut(request, " ")
	path, _, _ = strings.Cut(path, "?")
	for template, item := range w.server.Document().Paths {
		op := map[string]*huma.Operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "DELETE": item.Delete, "PATCH": item.Patch}[method]
		if op != nil && fits(template, path) {
			return op.OperationID
		}
	}
	return ""
}

// conforms compares an answer with the document, and returns the operation that it is of.
func (w *whole) conforms(step, request string, got answer) string {
	w.t.Helper()
	method, path, _ := strings.Cut(strings.Fields(step)[0]+" "+strings.Split(strings.Fields(step)[1], "?")[0], " ")
	doc := w.server.Document()
	for template, item := range doc.Paths {
		op := map[string]*huma.Operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "DELETE": item.Delete, "PATCH": item.Patch}[method]
		if op == nil || !fits(template, path) {
			continue
		}
		response := op.Responses[strconv.Itoa(got.status)]
		if response == nil {
			for status, r := range op.Responses {
				if strings.HasPrefix(status, "2") {
					response = r
				}
			}
		}
		if got.status == http.StatusNoContent {
			if got.body != "" {
				w.t.Errorf("%s: 204 with %q", request, got.body)
			}
			return op.OperationID
		}
		if response == nil || response.Content["application/json"] == nil {
			if got.kind == "application/json" {
				w.t.Errorf("%s: the document has no schema for %d, and the answer is %s", request, got.status, got.body)
			}
			return op.OperationID
		}
		var v any
		if err := json.Unmarshal([]byte(got.body), &v); err != nil {
			w.t.Errorf("%s: %v in %s", request, err, got.body)
			return op.OperationID
		}
		res := &huma.ValidateResult{}
		huma.Validate(doc.Components.Schemas, response.Content["application/json"].Schema, huma.NewPathBuffer([]byte("answer"), 6), huma.ModeReadFromServer, v, res)
		for _, err := range res.Errors {
			w.t.Errorf("%s: %v\n%s", request, err, got.body)
		}
		return op.OperationID
	}
	w.t.Errorf("%s is not in the document", request)
	return ""
}

// fits reports whether a path is one of a template. Where both have literal text, that
// must be the same, so that the most literal template is the one that fits.
func fits(template, path string) bool {
	want, have := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if !strings.HasPrefix(want[i], "{") && want[i] != have[i] {
			return false
		}
	}
	return true
}
