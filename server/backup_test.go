package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/store"
)

// backedUp is a store that says how a backup went. The backups themselves are tested where
// they are made.
type backedUp struct {
	store.Store
	err error
}

func (b backedUp) Backup(context.Context, string) error { return b.err }

// TestBackups: what goes wrong with a backup is said, and only who may do everything may make one.
func TestBackups(t *testing.T) {
	t.Parallel()
	const request = "POST /api/v1/backups"
	for _, c := range []struct {
		who, body string
		err       error
		status    int
		code      string
		text      string
	}{
		{"admin", `{"path":"/b"}`, nil, http.StatusCreated, "", `"path":"/b"`},
		{"admin", `{"path":"b"}`, nil, http.StatusBadRequest, "invalid", "is not absolute"},
		{"admin", `{"path":"/b"}`, fmt.Errorf("backup to /b: it exists: %w", store.ErrInvalid), http.StatusBadRequest, "invalid", "it exists"},
		{"admin", `{"path":"/b"}`, store.ErrInUse, http.StatusConflict, "conflict", "backup in progress"},
		{"admin", `{"path":"/b"}`, fmt.Errorf("backup to /b: %w", syscall.ENOSPC), http.StatusInternalServerError, "internal", "no space left on device"},
		{"operator", `{"path":"/b"}`, nil, http.StatusForbidden, "forbidden", "takes the role admin"},
		{"acme", `{"path":"/b"}`, nil, http.StatusForbidden, "forbidden", "access to all tenants required"},
	} {
		w := newWhole(t, func(cfg *server.Config) { cfg.Store = backedUp{cfg.Store, c.err} })
		got := w.do(c.who, request, c.body)
		if code, _ := got.object["code"].(string); got.status != c.status || code != c.code || !strings.Contains(got.body, c.text) {
			t.Errorf("%s, %s, %v: %d %s", c.who, c.body, c.err, got.status, got.body)
		}
	}
	got := newWhole(t).do("admin", request, `{"path":"/b"}`)
	if got.status != http.StatusBadRequest || !strings.Contains(got.body, "only the embedded store") {
		t.Errorf("a store in memory: %d %s", got.status, got.body)
	}
}
