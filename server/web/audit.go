package web

import (
	"net/http"

	"github.com/abidehq/abide/server/auth"
)

func (s *site) addAudit() {
	s.section("audit", "/audit", "Audit")
	s.page("GET /audit", s.audit)
}

// auditRow is an entry of the audit log.
type auditRow struct {
	auth.Entry
	Failed bool
}

// auditData is what the audit log shows.
type auditData struct {
	Scope              scope
	Subject, Operation string
	From, To           string
	Rows               []auditRow
	First, Next        string
	Empty              bool // nothing was asked for
	Error              string
}

// audit shows who did what, the latest first. It is for administrators, as over the API.
func (s *site) audit(r *request) (view, error) {
	if !r.who.Role.Includes(auth.Admin) {
		return view{}, &refusal{
			status: http.StatusForbidden, title: "Not allowed",
			text: "The audit log takes the role " + string(auth.Admin) + ". An administrator of tokens or logins can grant it.",
		}
	}
	sc := scope{Asked: r.value("tenant")}
	if sc.Asked != "" {
		if err := r.allow(sc.Asked); err != nil {
			return view{}, err
		}
	}
	d := auditData{Scope: sc, Subject: r.value("subject"), Operation: r.value("operation"), From: r.value("from"), To: r.value("to")}
	v := view{template: "audit", title: "Audit", section: "audit", data: &d}
	q := auth.AuditQuery{Tenant: sc.Asked, Subject: d.Subject, Operation: d.Operation, Limit: rows, Cursor: r.value("cursor")}
	var err error
	if q.From, err = parsePast("From", d.From, r.now()); err == nil {
		q.To, err = parsePast("To", d.To, r.now())
	}
	if err != nil {
		d.Error = err.Error()
		return v, nil //nolint:nilerr // the page shows it
	}
	page, err := s.cfg.Audit(r.ctx(), q)
	if err != nil {
		return view{}, err
	}
	for _, e := range page.Entries {
		d.Rows = append(d.Rows, auditRow{Entry: e, Failed: e.Status >= http.StatusBadRequest})
	}
	pairs := []string{"tenant", sc.Asked, "subject", d.Subject, "operation", d.Operation, "from", d.From, "to", d.To}
	if r.value("cursor") != "" {
		d.First = s.with("/audit", pairs...)
	}
	if page.Next != "" {
		d.Next = s.with("/audit", append(pairs, "cursor", page.Next)...)
	}
	d.Empty = sc.Asked == "" && d.Subject == "" && d.Operation == "" && d.From == "" && d.To == ""
	return v, nil
}
