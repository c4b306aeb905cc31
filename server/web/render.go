package web

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/abidehq/abide/server/auth"
)

//go:embed templates/*.html
var templateFiles embed.FS

// view is what a handler has to show.
type view struct {
	template string // the name of its file
	title    string
	section  string // of the menu
	status   int    // 200 if it is 0
	live     string // the query of the stream of changes that the page listens to
	data     any
}

// layout is what every page is rendered with. Data is the view's.
type layout struct {
	Title    string
	Section  string
	Sections []section
	Notice   string
	Live     string
	Version  string
	Store    string
	Now      time.Time
	Who      auth.Identity
	Can      bool // change things
	Logout   bool
	Data     any
}

// loadTemplates parses each page together with the frame and the parts that all share.
func (s *site) loadTemplates() error {
	shared, err := template.New("").Funcs(s.funcs()).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html")
	if err != nil {
		return fmt.Errorf("web: templates: %w", err)
	}
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return fmt.Errorf("web: templates: %w", err)
	}
	s.pages = map[string]*template.Template{}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "templates/"), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		t, err := shared.Clone()
		if err == nil {
			t, err = t.ParseFS(templateFiles, file)
		}
		if err != nil {
			return fmt.Errorf("web: template %s: %w", name, err)
		}
		s.pages[name] = t
	}
	return nil
}

// page adds a page.
func (s *site) page(pattern string, f func(*request) (view, error)) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		req := s.request(r)
		if !req.who.Role.Includes(auth.Read) {
			s.fail(w, r, &refusal{status: http.StatusForbidden, title: "Who are you?", text: "You have to log in to see this."})
			return
		}
		v, err := f(req)
		if elsewhere, ok := errors.AsType[*jump](err); ok {
			http.Redirect(w, r, elsewhere.to, http.StatusSeeOther)
			return
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.render(w, req, v)
	})
}

// render writes a page, all of it or an error.
func (s *site) render(w http.ResponseWriter, r *request, v view) {
	l := layout{
		Title: v.title, Section: v.section, Sections: s.visible(r), Version: s.cfg.Version, Store: s.storeName, Now: r.now(),
		Who: r.who, Can: r.can, Logout: r.who.Kind == auth.BySession, Data: v.data,
		Notice: notices[r.URL.Query().Get("done")], Live: v.live,
	}
	var out bytes.Buffer
	if err := s.pages[v.template].ExecuteTemplate(&out, "layout", l); err != nil {
		s.log.ErrorContext(r.Context(), "a page could not be rendered", "template", v.template, "error", err)
		http.Error(w, "the page could not be rendered; the log of the server says more", http.StatusInternalServerError)
		return
	}
	body, contentType := out.Bytes(), "text/html; charset=utf-8"
	if v.live != "" {
		body, contentType = s.differenceFor(r.Request, body)
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	if v.status == 0 {
		v.status = http.StatusOK
	}
	w.WriteHeader(v.status)
	_, _ = w.Write(body) // the client may be gone
}

// visible returns the menu of who makes the request.
func (s *site) visible(r *request) []section {
	var list []section
	for _, sec := range s.sections {
		if (sec.Name == "workers" || sec.Name == "builds" || sec.Name == "shards") && !r.everything() || sec.Name == "audit" && !r.who.Role.Includes(auth.Admin) {
			continue
		}
		if r.who.Role.Includes(auth.Read) {
			sec.Alarms, sec.Alarm = s.alarms(r, sec.Name)
		}
		list = append(list, sec)
	}
	return list
}

// with returns the address of a page with a query. Names and values alternate; those with
// an empty value are left out.
func (s *site) with(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Add(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return s.path(path)
	}
	return s.path(path) + "?" + q.Encode()
}
