package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/server/auth"
)

// TestThePageShowsTheAuditLog to administrators, and notes what a person has filled in wrongly
// as that.
func TestThePageShowsTheAuditLog(t *testing.T) {
	w := newWhole(t)
	w.do("operator", "POST /instances/new?orchestration=idle&at=tomorrow X-Request-Id:typo", "")
	w.do("operator", "POST /instances/new?orchestration=idle&id=made-17 X-Request-Id:made", "")
	page, err := w.guard.Audit(rootContext(t), auth.AuditQuery{})
	check.OK(t, err)
	for _, e := range page.Entries {
		if e.RequestID == "typo" && (e.Status != http.StatusBadRequest || !strings.Contains(e.Error, `"tomorrow" is no time`)) {
			t.Errorf("a mistake is noted as %+v", e)
		}
	}
	if logged := w.logged.String(); strings.Contains(logged, "request failed") {
		t.Errorf("a mistake of a person is an error of the server: %s", logged)
	}

	a := w.do("admin", "GET /audit?operation=start-instance", "")
	for _, text := range []string{"start-instance", "made-17", "is no time", ">400<", "Audit"} {
		if a.status != http.StatusOK || !strings.Contains(strings.ReplaceAll(a.body, " 400", ">400"), text) {
			t.Errorf("status %d, without %q", a.status, text)
		}
	}
	if a := w.do("admin", "GET /audit?operation=list-audit", ""); !strings.Contains(a.body, "?operation=list-audit") {
		t.Error("nobody notes who reads the log")
	}
	if a := w.do("operator", "GET /audit", ""); a.status != http.StatusForbidden || strings.Contains(a.body, "made-17") {
		t.Errorf("an operator reads it: status %d", a.status)
	}
	if a := w.do("operator", "GET /", ""); strings.Contains(a.body, `href="/audit"`) {
		t.Error("an operator has it in the menu")
	}
}
