package web

import (
	"cmp"
	"encoding/base64"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/store"
)

func (s *site) addQuarantine() {
	s.section("quarantine", "/quarantine", "Quarantine")
	s.page("GET /quarantine", s.quarantine)
	s.page("GET /quarantine/{tenant}/{id}", s.quarantined)
	for _, v := range s.quarantineVerbs() {
		s.verb(v)
	}
}

// The tenant in the path of a quarantined message is that of the record, as it is: the
// default one of instances is empty there, and that of timers is not.
func quarantinePath(k store.RecordKey) string {
	return "/quarantine/" + segment(k.Tenant) + "/" + segment(k.ID)
}

// quarantineRow is a quarantined message.
type quarantineRow struct {
	store.Message
	Tenant string
	ID     string
	Path   string
	Reason string
	Words  string // the reason in words
	Record store.Record
	Error  string // what went wrong last
	For    string // the address of the instance that it is for, if it is for one

	Instance string // its ID
	Brings   string // what it brings, in words; empty if that is not known
	Payload  []byte // of what it brings
}

// reasons are why messages are in quarantine, in words.
var reasons = map[string]string{
	store.ReasonAttempts: "It was tried as often as is allowed.",
	store.ReasonExpired:  "What it is for never came into being.",
	"refused":            "The sink said that it will never accept it.",
	"malformed":          "It cannot be read.",
	"backlog":            "The entity is locked, and too much waits for it.",
}

// quarantineOf reads a record. One that cannot be read is shown as far as it can.
func (s *site) quarantineOf(rec store.Record) quarantineRow {
	row := quarantineRow{
		Tenant: cmp.Or(rec.Key.Tenant, abide.DefaultTenant), ID: rec.Key.ID, Path: quarantinePath(rec.Key), Reason: rec.Status, Record: rec, Error: rec.Tags[store.TagError],
		Words: reasons[rec.Status],
	}
	m, err := store.Quarantined(rec)
	if err != nil {
		row.Error = err.Error()
		m = store.Message{Key: store.Key{Queue: rec.Name, Tenant: rec.Key.Tenant, Name: rec.Tags[store.TagKey]}, ID: rec.Tags[store.TagMessage], Body: rec.Body}
	}
	row.Message = m
	var e *history.Event
	if row.Instance, e = engine.MessageEvent(m.Key, m.Body); row.Instance != "" {
		row.For = s.path(instancePath(abide.Ref{Tenant: row.Tenant, ID: row.Instance}))
	}
	if e != nil {
		row.Brings, row.Payload = brings(e), e.Data
	}
	return row
}

// maxBrief is how much of a payload a list shows.
const maxBrief = 80

// brief returns the beginning of a payload on one line, if it is text.
func brief(data []byte) string {
	text := strings.Join(strings.Fields(string(data)), " ")
	if !utf8.ValidString(text) {
		return ""
	}
	if len(text) > maxBrief {
		return strings.ToValidUTF8(text[:maxBrief], "") + " …"
	}
	return text
}

// brings says what a message brings to its instance.
func brings(e *history.Event) string {
	switch e.Kind {
	case history.EventReceived:
		return "event " + e.Name
	case history.ExecutionStarted:
		return "start of " + e.Name
	case history.ActivityScheduled:
		return "activity " + e.Name
	case history.ActivityCompleted, history.ActivityFailed:
		return "result of an activity"
	case history.ChildCompleted, history.ChildFailed:
		return "result of a child"
	case history.TimerFired:
		return "timer"
	case history.EntityCalled, history.EntitySignaled:
		return "operation " + e.Name + " of " + e.Target
	case history.EntityLockRequested:
		return "request for the lock of " + e.Target
	case history.EntityCompleted, history.EntityFailed:
		return "result of an operation"
	default:
		return e.Kind.String()
	}
}

// quarantineData is what the list of quarantined messages shows.
type quarantineData struct {
	Scope       scope
	Rows        []quarantineRow
	First, Next string
}

func (s *site) quarantine(r *request) (view, error) {
	sc, err := r.scope()
	if err != nil {
		return view{}, err
	}
	d := quarantineData{Scope: sc}
	cursor := r.value("cursor")
	// The default tenant has two names in here: one list follows the other.
	names := []string{sc.Asked}
	queries := []store.Query{quarantineQuery(sc.Asked)}
	if sc.Asked == abide.DefaultTenant {
		empty := quarantineQuery("")
		empty.Tenant = new(string)
		names, queries = []string{"", abide.DefaultTenant}, []store.Query{empty, quarantineQuery(abide.DefaultTenant)}
	}
	first := 0
	if list, rest, found := strings.Cut(cursor, "."); found && list == "1" && len(queries) == 2 {
		first, cursor = 1, rest
	} else {
		cursor = strings.TrimPrefix(cursor, "0.")
	}
	for i := first; i < len(names) && len(d.Rows) < rows; i++ {
		q := queries[i]
		if i == first {
			q.Cursor = cursor
		}
		q.Limit = rows - len(d.Rows)
		page, err := s.cfg.Store.List(r.ctx(), q)
		if err != nil {
			return view{}, err
		}
		for _, rec := range page.Records {
			d.Rows = append(d.Rows, s.quarantineOf(rec))
		}
		if page.Next != "" {
			d.Next = s.with("/quarantine", "tenant", sc.Asked, "cursor", []string{"0.", "1."}[i]+page.Next)
			break
		}
	}
	if r.value("cursor") != "" {
		d.First = s.with("/quarantine", "tenant", sc.Asked)
	}
	return view{template: "quarantine", title: "Quarantine", section: "quarantine", live: "kinds=tick", data: &d}, nil
}

// quarantinedData is what the page of a quarantined message shows.
type quarantinedData struct {
	Row      quarantineRow
	Size     int64
	Base64   string
	Verbs    []verbLink
	Commands []command
}

func (s *site) quarantined(r *request) (view, error) {
	row, err := s.gotQuarantined(r)
	if err != nil {
		return view{}, err
	}
	d := quarantinedData{Row: row, Size: int64(len(row.Body))}
	if len(row.Body) <= maxBodyShown {
		d.Base64 = base64.StdEncoding.EncodeToString(row.Body)
	}
	if r.can {
		d.Verbs = []verbLink{
			{Label: "Redrive", Href: s.path(row.Path) + "/redrive"},
			{Label: "Delete", Href: s.path(row.Path) + "/delete", Danger: true},
		}
	}
	d.Commands = []command{
		{"Copy as curl", s.curl(r, "/quarantine/"+segment(row.Tenant)+"/"+segment(row.ID))},
		{"Copy as command", s.tool(r, "quarantine show "+shellQuote(row.ID)+tenantFlag(row.Tenant))},
	}
	return view{template: "quarantined", title: "Quarantined message", section: "quarantine", data: &d}, nil
}

func (s *site) gotQuarantined(r *request) (quarantineRow, error) {
	tenant, err := r.owner()
	if err != nil {
		return quarantineRow{}, err
	}
	rec, err := s.cfg.Store.Get(r.ctx(), store.RecordKey{Kind: store.KindQuarantine, Tenant: tenant, ID: r.named("id")})
	if errors.Is(err, store.ErrNotFound) {
		return quarantineRow{}, &refusal{status: 404, title: "Not there any more", text: "There is no such message in quarantine. It may have been redriven or discarded."}
	}
	return s.quarantineOf(rec), err
}

func (s *site) quarantineVerbs() []verb {
	ask := func(f form) func(*request) (form, error) {
		return func(r *request) (form, error) {
			row, err := s.gotQuarantined(r)
			f := f
			f.Back = s.path(row.Path)
			return f, err
		}
	}
	do := func(notice string, f func(*request, quarantineRow) error) func(*request) (done, error) {
		return func(r *request) (done, error) {
			row, err := s.gotQuarantined(r)
			if err != nil {
				return done{}, err
			}
			return done{target: row.Tenant + "/" + row.ID, to: s.path("/quarantine"), notice: notice}, f(r, row)
		}
	}
	return []verb{
		{
			pattern: "/quarantine/{tenant}/{id}/redrive", section: "quarantine", operation: "redrive-quarantined",
			form: ask(form{
				Title: "Redrive the message?", Submit: "Redrive",
				Text: "It goes back into its queue, as if it had never been tried. If what was wrong is still wrong, it comes back here.",
			}),
			apply: do("redriven", func(r *request, row quarantineRow) error { return s.engine.Redrive(r.ctx(), row.Tenant, row.ID) }),
		},
		{
			pattern: "/quarantine/{tenant}/{id}/delete", section: "quarantine", operation: "discard-quarantined",
			form: ask(form{
				Title: "Delete the message?", Submit: "Delete", Danger: true,
				Text: "It is gone for good, and nobody will ever handle it. An instance that waits for what it says waits for ever.",
			}),
			apply: do("discarded", func(r *request, row quarantineRow) error { return s.engine.Discard(r.ctx(), row.Tenant, row.ID) }),
		},
	}
}
