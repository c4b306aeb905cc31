//go:build unix

package testenv

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/check"
)

func TestPgBouncerGivesEachTransactionAnotherConnection(t *testing.T) {
	t.Parallel()
	server := SharedPostgres(t)
	pooled := server.Through(t, server.URL(), PgBouncer(t, server))
	// One that is in a transaction keeps its connection, so that there are two.
	first, err := pgx.Connect(t.Context(), pooled)
	check.OK(t, err)
	defer first.Close(t.Context()) //nolint:errcheck // it has nothing to say
	tx, err := first.Begin(t.Context())
	check.OK(t, err)
	wantValue(t, pooled+"&default_query_exec_mode=exec", "SELECT 1", 1)
	check.OK(t, tx.Rollback(t.Context()))
	seen := map[int]bool{}
	for range 4 {
		var pid int
		check.OK(t, first.QueryRow(t.Context(), "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid))
		seen[pid] = true
	}
	if len(seen) != 2 {
		t.Errorf("transactions of a client had the connections %v, want 2", seen)
	}
}
