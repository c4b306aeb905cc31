package tidy

import "strings"

// layer says what a package may import. Rows of the standard library are not
// needed: everybody may import that.
type layer struct {
	// path is that of a package within the module, or that of a folder followed by
	// /... for all packages in it. Within such a folder, imports are free.
	path string

	// imports are what it may import of the module, in the form of path.
	imports []string

	// tests are what its test files may import of the module besides.
	tests []string

	// alone: it imports nothing from outside the module. Its test files may.
	alone bool
}

// layers is the house, ground floor first. Each row names only rows above it in
// this table, so that nothing can go in circles; everybody may use clock and internal/errs, and all tests
// internal/check and internal/rig. The
// first row that matches a package is the one that counts.
var layers = []layer{
	{path: "clock", alone: true},
	{path: "internal/errs", alone: true},
	{path: "internal/base", alone: true},
	{path: "internal/backoff", imports: []string{"internal/base"}, alone: true},
	{path: "internal/admission", imports: []string{"internal/base"}, alone: true},
	{path: "internal/ratelimit", imports: []string{"internal/base"}},
	{path: "internal/tidy", alone: true},
	{path: "internal/tidy/platforms"},
	{path: "internal/check"},
	{path: "internal/testenv", imports: []string{"internal/base"}, alone: true},
	{path: "internal/browser", imports: []string{"internal/base", "internal/check", "internal/testenv"}},
	{path: "internal/standardwebhooks", alone: true},
	{path: "internal/safehttp"},
	{path: "internal/cron", alone: true},
	{path: "internal/wire", alone: true},
	{path: "internal/meter"},

	{
		path:  "store",
		alone: true,
	},
	{path: "internal/socket", imports: []string{"store"}},
	{path: "internal/cursor", imports: []string{"store"}, alone: true},
	{path: "internal/pages", imports: []string{"store"}, alone: true},
	{path: "internal/workpool", alone: true},
	{path: "internal/waitlist", imports: []string{"internal/base", "store"}, alone: true},
	{path: "internal/rows", imports: []string{"internal/base", "store"}, tests: []string{"store/memstore", "store/storetest"}, alone: true},
	backend("store/memstore"),
	{path: "store/storetest/...", imports: []string{"internal/base", "internal/testenv", "store", "store/memstore/..."}},
	backend("store/pebblestore"),
	backend("store/sqlitestore"),
	backend("store/pgstore"),
	backend("store/redisstore"),
	{
		path:    "store/shardstore",
		imports: []string{"internal/backoff", "internal/base", "internal/cursor", "store"},
		tests:   []string{"internal/testenv", "store/memstore", "store/pgstore", "store/storetest/..."},
	},
	{
		path:    "internal/transfer",
		imports: []string{"internal/pages", "internal/wire", "store"},
		tests: []string{
			".", "action", "bus", "bus/outbox", "server/operation", "server/auth", "store/...", "timer",
		},
	},
	{path: "internal/teststore", imports: []string{"internal/base", "internal/testenv", "internal/waitlist", "store/..."}},
	{path: "internal/sweep", imports: []string{"store"}, tests: []string{"store/..."}},
	{path: "internal/lease", imports: []string{"internal/backoff", "internal/base", "store"}, tests: []string{"store/..."}},
	{path: "internal/schema", imports: []string{}, alone: true},
	{path: "internal/catalog", imports: []string{"internal/base", "internal/pages", "internal/schema", "store"}, tests: []string{"store/..."}},
	{path: "internal/roster", imports: []string{"internal/base", "internal/pages", "internal/wire", "store"}, tests: []string{"store/..."}},
	{path: "internal/builds", imports: []string{"internal/wire", "store"}, tests: []string{"store/..."}, alone: true},
	{path: "internal/outage", imports: []string{"internal/base", "store"}, tests: []string{"store/..."}},
	{
		path:    "internal/claimloop",
		imports: []string{"internal/backoff", "internal/base", "internal/outage", "store"},
		tests:   []string{"internal/lease", "store/..."},
	},

	{path: "bus", tests: []string{"bus/bustest"}, alone: true},
	{path: "bus/bustest/...", imports: []string{"bus", "internal/base"}},
	{path: "internal/rig", imports: []string{"bus", "internal/check", "internal/teststore", "store/..."}},
	sink("bus/natsbus"),
	sink("bus/redisbus"),
	{
		path:    "bus/webhookbus",
		imports: []string{"bus", "internal/base", "internal/safehttp", "internal/standardwebhooks"},
		tests:   []string{"bus/bustest/..."},
	},

	{
		path:    "bus/outbox",
		imports: []string{"bus", "internal/backoff", "internal/base", "internal/claimloop", "internal/lease", "internal/meter", "internal/outage", "internal/wire", "store"},
		tests:   []string{"internal/teststore", "store/..."},
	},
	{
		path:    "timer",
		imports: []string{"bus", "bus/outbox", "internal/backoff", "internal/base", "internal/claimloop", "internal/meter", "internal/outage", "internal/pages", "internal/sweep", "internal/wire", "store"},
		tests:   []string{"bus/...", "internal/testenv", "internal/teststore", "store/..."},
	},

	{path: "history"},
	{path: "internal/narrate", imports: []string{"history"}},
	{path: "internal/replay", imports: []string{"history"}},
	{
		path: "internal/engine",
		imports: []string{
			"internal/admission", "internal/backoff", "internal/base", "internal/builds", "internal/catalog", "internal/claimloop", "history", "internal/lease", "internal/meter", "internal/outage", "internal/replay", "internal/roster", "internal/schema", "internal/wire", "internal/workpool", "store",
		},
		tests: []string{"internal/teststore", "internal/workertest", "store/..."},
	},
	{path: "internal/workerpb"},
	{path: "internal/durabletaskpb"},
	{path: "internal/workerlink", imports: []string{"history", "internal/engine", "internal/replay", "internal/workerpb"}},
	{
		path:    "internal/worker",
		imports: []string{"history", "internal/base", "internal/claimloop", "internal/engine", "internal/meter", "internal/replay", "internal/workerlink", "internal/workerpb", "internal/workpool"},
	},
	{
		path:    "internal/workerhost",
		imports: []string{"history", "internal/base", "internal/engine", "internal/replay", "internal/workerlink", "internal/workerpb", "internal/workpool"},
	},
	{path: "internal/workertest", imports: []string{"internal/base", "internal/engine", "internal/worker", "internal/workerhost", "internal/workerpb"}},
	{path: "internal/dial", imports: []string{"internal/base", "internal/engine", "internal/schema", "store"}},
	{
		path:    "internal/sqlitetools",
		imports: []string{"internal/engine", "history", "store", "store/sqlitestore"},
		tests:   []string{"internal/base"},
	},
	{
		path:    ".",
		imports: []string{"internal/base", "internal/dial", "internal/engine", "history", "internal/pages", "internal/replay", "internal/schema", "store"},
		tests:   []string{"internal/teststore", "internal/workertest", "store/..."},
	},

	{path: "action/tick", imports: []string{"internal/base"}},
	{
		path: "action",
		imports: []string{
			"action/tick", "bus", "internal/backoff", "internal/base", "internal/claimloop", "internal/cron", "internal/lease", "internal/meter", "internal/outage", "internal/pages", "internal/roster",
			"internal/sweep", "internal/wire", "store",
		},
		tests: []string{"internal/testenv", "internal/teststore", "store/..."},
	},
	{
		path:    "action/hook",
		imports: []string{"action", "bus", "internal/base", "internal/meter", "internal/ratelimit", "internal/standardwebhooks"},
		tests:   []string{"internal/testenv", "internal/teststore", "store", "store/pebblestore"},
	},
	{
		path:    "action/target",
		imports: []string{".", "action", "bus", "internal/base", "internal/engine", "internal/safehttp", "timer"},
		tests:   []string{"bus/outbox", "store", "store/memstore"},
	},

	{
		path:    "server/operation",
		imports: []string{".", "internal/backoff", "internal/base", "internal/claimloop", "internal/lease", "internal/outage", "internal/wire", "store"},
		tests:   []string{"internal/teststore", "store/..."},
	},
	{path: "server/telemetry", imports: []string{"internal/base", "internal/meter", "store"}},
	{path: "server/api", imports: []string{".", "action", "bus/outbox", "history", "server/operation", "store", "timer"}},
	{path: "server/auth", imports: []string{"internal/base", "internal/pages", "internal/ratelimit", "internal/sweep", "internal/wire", "store"}, tests: []string{"store/..."}},
	{
		path: "server/web",
		imports: []string{
			".", "action", "bus/outbox", "history", "internal/base", "internal/engine", "internal/narrate", "internal/roster", "server/api", "server/operation", "server/telemetry", "server/auth", "store", "timer",
		},
		tests: []string{"bus", "internal/browser", "internal/testenv", "store/..."},
	},
	{
		path: "server",
		imports: []string{
			".", "action", "bus/outbox", "history", "internal/backoff", "internal/base", "internal/meter", "server/operation", "internal/ratelimit", "internal/socket", "internal/sweep",
			"server/telemetry", "server/api", "server/auth", "server/web", "store", "timer",
		},
		tests: []string{"bus", "internal/roster", "internal/testenv", "remote", "store/..."},
	},
	{
		path: "remote",
		imports: []string{
			".", "action", "history", "internal/backoff", "internal/base", "internal/catalog", "internal/dial", "internal/engine", "internal/pages", "internal/schema",
			"internal/worker", "internal/workerlink", "internal/workerpb", "server/api", "store", "timer",
		},
		tests: []string{"internal/admission", "bus", "bus/outbox", "server/operation", "server", "store", "store/memstore"},
	},
	{path: "server/grpcserve", imports: []string{"server/auth"}},
	{
		path: "server/workers",
		imports: []string{
			".", "internal/base", "internal/catalog", "internal/dial", "internal/engine", "internal/ratelimit", "internal/schema", "internal/workerhost", "internal/workerlink", "internal/workerpb",
			"server/api", "server/auth", "server/grpcserve", "store",
		},
		tests: []string{"history", "internal/replay", "internal/roster", "internal/testenv", "internal/worker", "remote", "server", "store/memstore"},
	},
	{
		path: "server/durabletask",
		imports: []string{
			".", "history", "internal/backoff", "internal/base", "internal/dial", "internal/durabletaskpb", "internal/engine", "internal/replay",
			"server/auth", "server/grpcserve", "store",
		},
		tests: []string{"internal/testenv", "store/memstore"},
	},
	{
		path:    "abidetest",
		imports: []string{".", "internal/base", "internal/engine", "store", "store/memstore"},
		tests:   []string{"action/...", "bus", "bus/outbox", "history", "internal/workertest", "server", "timer"},
	},
	{path: "internal/demo", imports: []string{".", "action", "bus", "internal/base", "timer"}, tests: []string{"abidetest", "bus/outbox", "store/memstore"}},
	{path: "internal/config", imports: []string{"action", "action/hook", "server/api", "server/auth"}},
	{
		path: "internal/daemon",
		imports: []string{
			".", "action", "action/hook", "action/target", "bus/...", "internal/backoff", "internal/base", "internal/config", "internal/demo", "server/operation",
			"server/telemetry", "server", "server/auth", "server/durabletask", "server/grpcserve", "server/workers", "store/...", "timer",
		},
		tests: []string{"remote"},
	},

	{path: "internal/faults", tests: []string{".", "history", "internal/testenv", "internal/teststore", "internal/workertest", "store/..."}},
	{path: "internal/taskhubtest", tests: []string{"internal/testenv"}},
	{path: "internal/firsthour", tests: []string{"internal/browser", "internal/testenv"}},
	{
		path:  "internal/sim",
		tests: []string{".", "action", "bus", "bus/outbox", "internal/testenv", "internal/workertest", "store", "store/memstore", "timer"},
	},
	// The analysis knows the names of the engine, and imports nothing of it.
	{path: "vet/..."},

	{
		path: "internal/bench/...",
		imports: []string{
			".", "action", "action/hook", "bus/...", "internal/meter", "remote", "server/telemetry", "server", "server/api", "server/auth", "server/workers", "store/...", "timer",
		},
		tests: []string{"internal/testenv"},
	},
	{
		path: "internal/cli/...",
		imports: []string{
			".", "action", "action/target", "history", "internal/backoff", "internal/base", "internal/bench/...", "internal/config", "internal/daemon", "internal/narrate", "internal/roster", "server/operation",
			"internal/socket", "internal/sqlitetools", "internal/transfer", "remote", "server", "server/api", "server/auth", "store/...", "timer", "vet/...",
		},
		tests: []string{"bus", "bus/outbox", "internal/testenv"},
	},
	{
		path: "internal/fleet",
		tests: []string{
			".", "abidetest", "bus", "bus/outbox", "history", "internal/base", "internal/cli", "internal/testenv", "remote",
			"store", "store/pebblestore", "store/pgstore", "store/redisstore", "store/shardstore", "timer",
		},
	},
	{path: "cmd/...", imports: []string{"internal/cli/..."}},

	// An example imports what a user can import.
	{path: "examples/...", imports: []string{".", "action/...", "bus/...", "server", "remote", "server/telemetry", "store/...", "timer"}, tests: []string{"abidetest", "history"}},
}

// backend is the row of a store: it imports the contract, its driver and nothing of
// a sibling. Its tests run the suite and may compare it with the model.
func backend(folder string) layer {
	return layer{
		path:    folder + "/...",
		imports: []string{"internal/backoff", "internal/base", "internal/cursor", "internal/rows", "internal/waitlist", "store"},
		tests:   []string{"internal/testenv", "store/storetest/...", "store/memstore/..."},
	}
}

// sink is the row of an adapter of the bus: it imports the port, its driver and
// nothing of a sibling. Its tests run the suite.
func sink(folder string) layer {
	return layer{
		path:    folder + "/...",
		imports: []string{"bus", "internal/backoff", "internal/base"},
		tests:   []string{"bus/bustest/...", "internal/testenv"},
	}
}

// checkImports finds imports that go up or sideways, and packages without a row.
func checkImports(tree []*source) []finding {
	var found []finding
	for _, s := range tree {
		row, ok := layerOf(s.dir())
		if !ok {
			found = append(found, s.at(s.file.Package, "package %s has no row in the table of layers", s.dir()))
			continue
		}
		for _, spec := range s.file.Imports {
			if p := importPath(spec); !row.allows(p, s.isTest()) {
				found = append(found, s.at(spec.Pos(), "%s must not import %s", s.dir(), p))
			}
		}
	}
	return found
}

func layerOf(pkg string) (layer, bool) {
	for _, row := range layers {
		if matches(row.path, pkg) {
			return row, true
		}
	}
	return layer{}, false
}

func (l layer) allows(imported string, isTest bool) bool {
	if !under(imported, module) {
		fromOutside := strings.Contains(strings.Split(imported, "/")[0], ".")
		return !fromOutside || !l.alone || isTest
	}
	pkg := "."
	if imported != module {
		pkg = strings.TrimPrefix(imported, module+"/")
	}
	allowed := append([]string{l.path, "clock", "internal/errs"}, l.imports...)
	if isTest {
		allowed = append(append(allowed, l.tests...), "internal/check", "internal/rig")
	}
	for _, pattern := range allowed {
		if matches(pattern, pkg) {
			return true
		}
	}
	return false
}

func matches(pattern, pkg string) bool {
	if folder, all := strings.CutSuffix(pattern, "/..."); all {
		return under(pkg, folder)
	}
	return pkg == pattern
}
