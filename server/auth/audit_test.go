package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store"
)

func (r *fixture) note(g *Guard, e Entry) {
	r.t.Helper()
	check.OK(r.t, g.Note(r.as(Operate), e))
}

// audit walks along the pages, and returns what was done, in one text.
func (r *fixture) audit(g *Guard, q AuditQuery) string {
	r.t.Helper()
	var out []string
	for {
		page, err := g.Audit(r.as(Admin), q)
		check.OK(r.t, err)
		if q.Limit > 0 && len(page.Entries) > q.Limit {
			r.t.Fatalf("a page of %d", len(page.Entries))
		}
		for _, e := range page.Entries {
			out = append(out, e.Operation)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return strings.Join(out, " ")
		}
	}
}

func TestNoteKeepsAllOfAnEntry(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{})
	e := Entry{
		RequestID: "r1", Subject: "s", Name: "a service", Kind: ByToken, Remote: "192.0.2.1", Operation: "start-instance",
		Tenant: "acme", Target: "/api/v1/instances/acme/1", Status: 409, Error: "exists",
	}
	r.note(g, e)
	page, err := g.Audit(r.as(Admin), AuditQuery{})
	if err != nil || len(page.Entries) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	e.At = noon
	if page.Entries[0] != e {
		t.Errorf("%+v", page.Entries[0])
	}
	lines := strings.Split(strings.TrimSpace(r.log.String()), "\n")
	want := `level=INFO msg=audit operation=start-instance by=s name="a service" kind=token remote=192.0.2.1 request_id=r1 tenant=acme target=/api/v1/instances/acme/1 status=409 failure=exists`
	if len(lines) != 1 || !strings.HasSuffix(lines[0], want) {
		t.Errorf("logged %q", lines)
	}
	r.note(g, Entry{Operation: "cancel-instance", Target: strings.Repeat("é", MaxAuditField)})
	page, err = g.Audit(r.as(Admin), AuditQuery{Limit: 1})
	check.OK(t, err)
	got := page.Entries[0]
	if got.Subject != "tester" || got.Name != "tester" || got.Kind != Local || got.Target != strings.Repeat("é", MaxAuditField/2) {
		t.Errorf("from the context, and cut: %+v", got)
	}
}

// TestAuditIsInOrder: whatever process has written it.
func TestAuditIsInOrder(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	guards := []*Guard{r.guard(Config{}), r.guard(Config{}), r.guard(Config{})}
	var all []string
	for i := range 300 {
		r.note(guards[(i*i)%3], Entry{Operation: fmt.Sprint("op", i), Subject: fmt.Sprint("s", i%5), Tenant: fmt.Sprint("t", i%2)})
		all = append(all, fmt.Sprint("op", i))
		r.clock.Advance(time.Duration(i+1) * time.Second) // about half a day in all
	}
	slices.Reverse(all)
	want := strings.Join(all, " ")
	for _, limit := range []int{0, 1, 7, 300} {
		if got := r.audit(guards[0], AuditQuery{Limit: limit}); got != want {
			t.Errorf("pages of %d:\n%s\nwant\n%s", limit, got, want)
		}
	}
	// pick returns those with a number that has a property.
	pick := func(keep func(i int) bool) string {
		var some []string
		for i := 299; i >= 0; i-- {
			if keep(i) {
				some = append(some, fmt.Sprint("op", i))
			}
		}
		return strings.Join(some, " ")
	}
	at := func(i int) time.Time { return noon.Add(time.Duration(i*(i+1)/2) * time.Second) }
	for name, tt := range map[string]struct {
		q    AuditQuery
		keep func(i int) bool
	}{
		"subject":   {AuditQuery{Subject: "s3"}, func(i int) bool { return i%5 == 3 }},
		"tenant":    {AuditQuery{Tenant: "t1"}, func(i int) bool { return i%2 == 1 }},
		"operation": {AuditQuery{Operation: "op42"}, func(i int) bool { return i == 42 }},
		"both":      {AuditQuery{Subject: "s3", Tenant: "t1"}, func(i int) bool { return i%10 == 3 }},
		"from":      {AuditQuery{From: at(250)}, func(i int) bool { return i >= 250 }},
		"to":        {AuditQuery{To: at(50)}, func(i int) bool { return i < 50 }},
		"between":   {AuditQuery{From: at(100), To: at(120)}, func(i int) bool { return i >= 100 && i < 120 }},
		"nothing":   {AuditQuery{From: at(299).Add(time.Hour)}, func(int) bool { return false }},
		"nobody":    {AuditQuery{Subject: "x"}, func(int) bool { return false }},
	} {
		for _, limit := range []int{0, 1, 3} {
			tt.q.Limit = limit
			if got, want := r.audit(guards[1], tt.q), pick(tt.keep); got != want {
				t.Errorf("%s, pages of %d:\n%s\nwant\n%s", name, limit, got, want)
			}
		}
	}
}

// TestAuditAtTheSameTime: entries of one millisecond are returned once each, page by page.
func TestAuditAtTheSameTime(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	guards := []*Guard{r.guard(Config{}), r.guard(Config{})}
	for i := range 40 {
		r.note(guards[i%2], Entry{Operation: fmt.Sprint("op", i)})
	}
	for _, limit := range []int{1, 3, 40} {
		got := strings.Fields(r.audit(guards[0], AuditQuery{Limit: limit}))
		slices.Sort(got)
		if n := len(slices.Compact(got)); n != 40 {
			t.Errorf("pages of %d: %d of 40", limit, n)
		}
	}
}

// TestAuditWhileWritten: what is noted meanwhile disturbs nobody who reads.
func TestAuditWhileWritten(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{})
	for i := range 50 {
		r.note(g, Entry{Operation: fmt.Sprint("old", i)})
		r.clock.Advance(time.Second)
	}
	var got []string
	q := AuditQuery{Limit: 3}
	for {
		page, err := g.Audit(r.as(Admin), q)
		check.OK(t, err)
		for _, e := range page.Entries {
			got = append(got, e.Operation)
		}
		r.note(g, Entry{Operation: "new"})
		r.clock.Advance(10 * time.Minute)
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if len(got) != 50 || got[0] != "old49" || got[49] != "old0" {
		t.Errorf("read %v", got)
	}
}

func TestAuditShowsTenantsTheirOwn(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{})
	for _, tenant := range []string{"a", "b", "", "a"} {
		r.note(g, Entry{Operation: "op-" + tenant, Tenant: tenant})
	}
	page, err := g.Audit(r.as(Admin, "a", "c"), AuditQuery{})
	if err != nil || len(page.Entries) != 2 || page.Entries[0].Tenant != "a" {
		t.Errorf("%+v, %v", page, err)
	}
	page, err = g.Audit(r.as(Admin, "a"), AuditQuery{Tenant: "b"})
	if err != nil || len(page.Entries) != 0 {
		t.Errorf("of another tenant: %+v, %v", page, err)
	}
	for _, q := range []AuditQuery{{Limit: -1}, {Limit: MaxPage + 1}, {Cursor: "x"}, {Cursor: "AQ"}, {Cursor: strings.Repeat("A", 100)}, {Cursor: "!"}} {
		if _, err := g.Audit(r.as(Admin), q); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// TestNotesShareACommit: under load there are far fewer commits than entries, and nobody
// is told that an entry is durable before it is.
func TestNotesShareACommit(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	const callers = 200
	begun := make(chan struct{})
	go1 := make(chan struct{})
	slow := &counting{Store: r.store}
	slow.onCommit = func(*store.Tx) error {
		if slow.commits.Load() == 1 {
			close(begun)
			<-go1
		}
		return nil
	}
	g := r.guard(Config{Store: slow})
	var wg sync.WaitGroup
	var mu sync.Mutex
	returned := 0
	note := func() {
		if err := g.Note(r.as(Operate), Entry{Operation: "x"}); err != nil {
			t.Error(err)
		}
		mu.Lock()
		returned++
		mu.Unlock()
	}
	wg.Go(note)
	<-begun
	for range callers - 1 {
		wg.Go(note)
	}
	for waits := 0; waits < callers-1; { // all of the others are in line
		g.audit.mu.Lock()
		waits = len(g.audit.waiting)
		g.audit.mu.Unlock()
	}
	mu.Lock()
	if returned > 0 {
		t.Errorf("%d were told before anything was durable", returned)
	}
	mu.Unlock()
	close(go1)
	wg.Wait()
	if n := slow.commits.Load(); n != 2 {
		t.Errorf("%d commits for %d entries", n, callers)
	}
	check.Equal(t, "entries", len(strings.Fields(r.audit(g, AuditQuery{}))), callers)
}

func TestNoteThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	broken := errors.New("the disk is broken")
	bad := &counting{Store: r.store}
	g := r.guard(Config{Store: bad})
	r.note(g, Entry{Operation: "before"})
	bad.onCommit = func(tx *store.Tx) error {
		_ = r.store.Commit(t.Context(), tx) // it is there, but nobody is told
		return broken
	}
	check.Error(t, g.Note(r.as(Operate), Entry{Operation: "during"}), broken)
	if !strings.Contains(r.log.String(), `level=ERROR msg="audit: cannot be kept" operation=during`) {
		t.Errorf("logged %s", r.log)
	}
	bad.onCommit = nil
	r.note(g, Entry{Operation: "after"})
	if got := r.audit(g, AuditQuery{}); !strings.Contains(got, "after") || !strings.Contains(got, "before") {
		t.Errorf("kept %s", got)
	}
	// Who gives up is told, and takes nobody along.
	hold := make(chan struct{})
	bad.onCommit = func(*store.Tx) error { <-hold; return nil }
	ctx, cancel := context.WithCancel(r.as(Operate))
	gone := make(chan error)
	go func() { gone <- g.Note(ctx, Entry{Operation: "gone"}) }()
	cancel()
	check.Error(t, <-gone, context.Canceled)
	stays := make(chan error)
	go func() { stays <- g.Note(r.as(Operate), Entry{Operation: "stays"}) }()
	close(hold)
	if err := <-stays; err != nil {
		t.Errorf("who stayed: %v", err)
	}
	g.audit.mu.Lock()
	g.audit.writing, g.audit.waiting = true, make([]*waiting, MaxAuditWaiting)
	g.audit.mu.Unlock()
	check.Error(t, g.Note(r.as(Operate), Entry{Operation: "too many"}), ErrFull)
}

// TestAuditLogsAreShort: one is begun after so many entries, so many bytes, and so much
// time, so that no reader has to go through a long one.
func TestAuditLogsAreShort(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		entries int
		target  string
		pause   time.Duration
		logs    int
	}{
		"few":   {100, "", time.Second, 1},
		"many":  {auditLogCount + 1, "", 0, 2},
		"long":  {1100, strings.Repeat("x", MaxAuditField), 0, 2},
		"hours": {11, "", 30 * time.Minute, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t)
			g := r.guard(Config{})
			for range tt.entries {
				r.note(g, Entry{Operation: "x", Target: tt.target})
				r.clock.Advance(tt.pause)
			}
			n, err := r.store.Count(t.Context(), store.Query{Kind: kindAudit}, 1000)
			if err != nil || n != tt.logs {
				t.Errorf("%d logs, %v", n, err)
			}
			check.Equal(t, "entries", len(strings.Fields(r.audit(g, AuditQuery{Limit: MaxPage}))), tt.entries)
		})
	}
}

// TestAuditPageIsBounded: who looks for what is not there gets empty pages, each after a
// bounded piece of work, and reads nothing that a cursor has left behind.
func TestAuditPageIsBounded(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	counted := &counting{Store: r.store}
	g := r.guard(Config{Store: counted})
	const logs = 1000
	for i := range logs {
		r.note(g, Entry{Operation: fmt.Sprint("op", i)})
		r.clock.Advance(auditLogSpan)
	}
	pages, q := 0, AuditQuery{Subject: "nobody"}
	for {
		before := counted.logs.Load()
		page, err := g.Audit(r.as(Admin), q)
		if err != nil || len(page.Entries) > 0 {
			t.Fatalf("%+v, %v", page, err)
		}
		if n := counted.logs.Load() - before; n > 2*auditScan/auditOpen {
			t.Errorf("a page has read %d logs", n)
		}
		pages++
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if pages < 3 {
		t.Errorf("%d pages", pages)
	}
	before := counted.logs.Load()
	page, err := g.Audit(r.as(Admin), AuditQuery{To: noon.Add(10 * auditLogSpan), Limit: 2})
	if err != nil || len(page.Entries) != 2 || page.Entries[0].Operation != "op9" {
		t.Fatalf("%+v, %v", page, err)
	}
	if n := counted.logs.Load() - before; n > 10 {
		t.Errorf("a page of 2 entries has read %d times", n)
	}
}

// TestAuditOpensWhatItNeeds: logs of the same hour that begin after what is asked for are
// left alone.
func TestAuditOpensWhatItNeeds(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for i := range 50 {
		r.note(r.guard(Config{}), Entry{Operation: fmt.Sprint("op", i)})
		r.clock.Advance(time.Second)
	}
	counted := &counting{Store: r.store}
	g := r.guard(Config{Store: counted})
	page, err := g.Audit(r.as(Admin), AuditQuery{To: noon.Add(5 * time.Second), Limit: 1})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Operation != "op4" {
		t.Fatalf("%+v, %v", page, err)
	}
	if n := counted.logs.Load(); n > 2 {
		t.Errorf("%d logs were read for one entry", n)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{AuditRetention: 48 * time.Hour})
	for i := range 60 { // more than are removed at once
		r.note(g, Entry{Operation: fmt.Sprint("op", i)})
		r.clock.Advance(time.Hour)
	}
	old, _ := r.token(g, NewToken{Name: "old", Expires: r.clock.Now().Add(time.Hour)})
	kept, _ := r.token(g, NewToken{Name: "kept"})
	if _, err := g.startSession(t.Context(), session{kind: BySession, subject: "p", name: "p", role: Read}); err != nil {
		t.Fatal(err)
	}
	l := login{id: "l", expires: r.clock.Now().Add(LoginLife)}
	check.OK(t, r.store.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: l.record()}}}))
	count := func(kind string) int {
		n, err := r.store.Count(t.Context(), store.Query{Kind: kind}, 1000)
		check.OK(t, err)
		return n
	}
	clean := func() {
		t.Helper()
		check.OK(t, errors.Join(g.sweep(t.Context()), g.sweepTokens(t.Context())))
	}
	clean()
	if got := r.audit(g, AuditQuery{Limit: 1000}); len(strings.Fields(got)) != 48 || !strings.HasSuffix(got, " op12") {
		t.Errorf("after 60 hours, of 48: %s", got)
	}
	if count(kindAudit) != 48 || count(kindSession) != 1 || count(kindLogin) != 1 || count(kindToken) != 2 {
		t.Errorf("%d logs, %d sessions, %d logins, %d tokens", count(kindAudit), count(kindSession), count(kindLogin), count(kindToken))
	}
	r.clock.Advance(SessionLife + time.Millisecond)
	clean()
	if count(kindSession) != 0 || count(kindLogin) != 0 || count(kindToken) != 2 {
		t.Errorf("%d sessions, %d logins, %d tokens", count(kindSession), count(kindLogin), count(kindToken))
	}
	r.clock.Advance(ExpiredTokenLife)
	clean()
	page, err := g.Tokens(r.as(Admin), 0, "")
	if err != nil || len(page.Tokens) != 1 || page.Tokens[0].ID != kept.ID {
		t.Errorf("%s is still there: %+v, %v", old.ID, page.Tokens, err)
	}
	check.Equal(t, "logs", count(kindAudit), 0)
	r.note(g, Entry{Operation: "later"}) // although the log that it had is gone
	forever := r.guard(Config{AuditRetention: -1})
	r.clock.Advance(10 * 365 * 24 * time.Hour)
	if err := forever.sweep(t.Context()); err != nil || count(kindAudit) != 1 {
		t.Errorf("for ever: %d logs, %v", count(kindAudit), err)
	}
}

func TestSweptLogsLeaveNothing(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{})
	r.note(g, Entry{Operation: "x"})
	name := g.audit.log.name
	r.clock.Advance(DefaultAuditRetention + time.Millisecond)
	check.OK(t, g.sweep(t.Context()))
	if page, err := r.store.ReadLog(t.Context(), auditKey(name), 0); err != nil || page.Length != 0 {
		t.Errorf("%d entries are left, %v", page.Length, err)
	}
}
