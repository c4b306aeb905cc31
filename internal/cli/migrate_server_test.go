//go:build unix

package cli

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/abidehq/abide/internal/cli/store"

	"github.com/abidehq/abide/internal/cli/connect"

	"github.com/abidehq/abide/internal/testenv"
)

// TestMigrate runs the commands on a server, as an operator does.
func TestMigrate(t *testing.T) {
	t.Setenv(connect.EnvStore, "")
	u, err := url.Parse(testenv.Postgres(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("schema", "orders")
	u.RawQuery = query.Encode()
	place := u.String()

	code, out := runMigrate(t, "status", "--store", place)
	if code != ExitFailure || strings.Count(out, "missing") < 2 {
		t.Errorf("status of an empty database: code %d\n%s", code, out)
	}
	code, out = runMigrate(t, "up", "--store", place)
	if code != ExitOK || !strings.HasPrefix(out, "applied 1 tables\napplied 2 views\napplied 3 search\napplied 4 holders\napplied 5 acknowledged\n") {
		t.Errorf("up: code %d\n%s", code, out)
	}
	code, out = runMigrate(t, "up", "--store", place)
	if code != ExitOK || !strings.HasPrefix(out, "nothing to do") {
		t.Errorf("up again: code %d\n%s", code, out)
	}
	t.Setenv(connect.EnvStore, place)
	code, out = runMigrate(t, "status", "-o", "json")
	var status struct {
		Migrations []store.Migrated
		Missing    int
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil || code != ExitOK || status.Missing != 0 ||
		len(status.Migrations) < 2 || status.Migrations[0].Applied == nil {
		t.Errorf("status: code %d, error %v\n%s", code, err, out)
	}
}
