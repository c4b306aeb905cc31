package pgstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// settings are what each connection is set to, as far as the server knows it.
var settings = []struct{ name, value string }{
	// Nothing hangs for ever, and nothing that we left behind is in anybody's way for long:
	// a server finds out by itself that our machine is gone, and lets go of our locks.
	{"statement_timeout", "30s"},
	{"idle_in_transaction_session_timeout", "30s"},
	{"tcp_keepalives_idle", "5"},
	{"tcp_keepalives_interval", "3"},
	{"tcp_keepalives_count", "3"},
	{"tcp_user_timeout", "15000"},

	// Every statement is written for its indexes, and planned once. Left alone, the planner
	// would choose for a table that is empty today, and keep to it when it is not.
	{"plan_cache_mode", "force_generic_plan"},
	{"enable_seqscan", "off"},
	{"enable_bitmapscan", "off"},
	{"enable_hashjoin", "off"},
	{"enable_mergejoin", "off"},
	{"max_parallel_workers_per_gather", "0"},
	{"jit", "off"},

	// Whatever the database's or the role's defaults are.
	{"default_transaction_isolation", "read committed"},
	{"search_path", "pg_catalog"},
	{"TimeZone", "UTC"},
}

// relaxed is the setting of connections whose writes may be lost in a crash of the server:
// leases, which then never were, and what is only kept tidy.
var relaxed = struct{ name, value string }{"synchronous_commit", "off"}

// groupLockWait is how long a group of commits waits for a row that another transaction has
// locked, and lockWait is how long anything else does.
const (
	groupLockWait = 300 * time.Millisecond
	lockWait      = 30 * time.Second
)

// knownSettings returns the names of settings that the server has.
func knownSettings(ctx context.Context, c *pgx.Conn) ([]string, error) {
	names := []string{relaxed.name, "lock_timeout"}
	for _, s := range settings {
		names = append(names, s.name)
	}
	found, err := c.Query(ctx, `SELECT name FROM pg_settings WHERE name = ANY ($1)`, names)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowTo[string])
}

// setting returns the statement that sets what is known, for a transaction (through a pooler) or
// for the connection.
func setting(known []string, relax bool, lockWait time.Duration, local bool) string {
	var calls []string
	set := func(name, value string) {
		// Behind a pooler, the connection to the server is the pooler's to look after.
		if slices.Contains(known, name) && (!local || !strings.HasPrefix(name, "tcp_")) {
			calls = append(calls, fmt.Sprintf("set_config('%s', '%s', %t)", name, value, local))
		}
	}
	for _, s := range settings {
		set(s.name, s.value)
	}
	set("lock_timeout", fmt.Sprint(lockWait.Milliseconds()))
	if relax {
		set(relaxed.name, relaxed.value)
	}
	return "SELECT " + strings.Join(calls, ", ")
}

// pooledSettings returns the statements with which transactions begin through a pooler: those of
// commits, and those of claims and reads.
func pooledSettings(known []string) []string {
	return []string{setting(known, false, groupLockWait, true), setting(known, true, lockWait, true)}
}

// setConfig is how such a statement begins.
const setConfig = "SELECT set_config("
