//go:build unix

package testenv

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/check"
)

func TestPostgresPairIsSynchronous(t *testing.T) {
	t.Parallel()
	pair := NewPostgresPair(t)
	execute(t, pair.Primary.URL(), "CREATE TABLE numbers (n int)")
	execute(t, pair.Primary.URL(), "INSERT INTO numbers VALUES (1)")
	wantValue(t, pair.Standby.URL(), "SELECT pg_is_in_recovery()", true)
	pair.Replication.Cut()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, pair.Primary.URL())
	check.OK(t, err)
	if _, err := conn.Exec(ctx, "INSERT INTO numbers VALUES (2)"); err == nil {
		t.Error("a commit was acknowledged that the standby does not have")
	}
	pair.Standby.Promote()
	wantValue(t, pair.Standby.URL(), "SELECT count(*)::int FROM numbers", 1)
	execute(t, pair.Standby.URL(), "INSERT INTO numbers VALUES (3)")
}
