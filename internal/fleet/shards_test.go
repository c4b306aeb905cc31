package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/shardstore"
)

// moverVariable is the environment variable with which a test starts itself as a process that moves
// tenants. It holds an errand.
const moverVariable = "ABIDE_FLEET_MOVER"

// errand says what to move.
type errand struct {
	List   string // the file of shards
	Tenant string
	To     string
}

// runMover is what such a process does: it finishes a move that was interrupted, and then its own. It
// returns its exit code.
func runMover(text string) int {
	var e errand
	err := json.Unmarshal([]byte(text), &e)
	if err == nil {
		err = e.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (e *errand) run(ctx context.Context) error {
	s, err := shardstore.Open(ctx, e.List, shardstore.Options{Mover: true})
	if err != nil {
		return err
	}
	tell := func(p shardstore.Progress) { fmt.Println(p.Stage) }
	err = s.Resume(ctx, tell)
	if err == nil {
		err = s.Move(ctx, shardstore.OneTenant(e.Tenant), e.To, tell)
	}
	return errors.Join(err, s.Close())
}

// newShardedFleet returns a fleet without processes on a store of two shards, each a database of a
// server, and the file that lists them.
func newShardedFleet(t *testing.T, server *testenv.PostgresServer) (f *fleet, list string) {
	t.Helper()
	list = filepath.Join(t.TempDir(), "shards")
	text := fmt.Sprintf("a %s\nb %s\n", server.Database(t), server.Database(t))
	check.OK(t, os.WriteFile(list, []byte(text), 0o600))
	return newFleetOn(t, "shards://"+list, server.Database(t)), list
}

// TestMovedTenants moves tenants to and fro while the fleet is at work, and kills the mover at random,
// and processes of the fleet, and has one stand still. Nothing is lost or done twice.
func TestMovedTenants(t *testing.T) {
	t.Parallel()
	f, list := newShardedFleet(t, testenv.Postgres(t))
	for range 3 {
		f.add(nil)
	}
	// A tenant whose mover was killed while it was closed is open again after some seconds.
	f.outage = 10 * time.Second
	stop := f.load(2*every, f.start)
	moved := append([]string{""}, tenants...)
	// The mover is killed at one stage or another, or not at all.
	stages := []shardstore.Stage{shardstore.Copying, shardstore.Closed, "", shardstore.Cleaning, shardstore.Closed}
	killed := map[shardstore.Stage]int{}
	for i := range rounds(3, 20) {
		f.progress(20)
		tenant := moved[i%len(moved)]
		e := errand{List: list, Tenant: tenant, To: f.elsewhere(tenant)}
		if i == 3 {
			_, p := f.any()
			thaw := p.freeze()
			f.pass(lease * 3 / 2)
			thaw()
		}
		if i == 4 {
			k, p := f.any()
			p.kill()
			f.processes[k] = startProcess(t, f.setup(nil))
		}
		stage := stages[i%len(stages)]
		if !f.send(e, stage, time.Duration(f.rnd.IntN(50))*time.Millisecond) {
			killed[stage]++
		}
	}
	check.OK(t, (&errand{List: list, To: f.elsewhere("")}).run(t.Context()))
	stop()
	f.check()
	t.Logf("movers killed, by stage: %v", killed)
	if killed[shardstore.Closed] == 0 || killed[""] > 0 {
		t.Error("no mover was killed while a tenant was closed, or one failed by itself")
	}
}

// elsewhere returns the shard that a tenant is not on.
func (f *fleet) elsewhere(tenant string) string {
	if f.store.(*shardstore.Store).Directory().Of(tenant) == "a" {
		return "b"
	}
	return "a"
}

// send starts a mover, kills it a while after it has come to a stage, and reports whether it finished.
func (f *fleet) send(e errand, stage shardstore.Stage, after time.Duration) (finished bool) {
	f.t.Helper()
	text, err := json.Marshal(e)
	check.OK(f.t, err)
	self, err := os.Executable()
	check.OK(f.t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), moverVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	said, err := cmd.StdoutPipe()
	check.OK(f.t, err)
	check.OK(f.t, cmd.Start())
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if stage != "" && lines.Text() == string(stage) {
			pause(after)
			_ = cmd.Process.Kill() // it may have ended by itself just now
		}
	}
	return cmd.Wait() == nil
}

// TestShardsDoNotStopEachOther stops the database of one shard: the tenants of the other go on.
func TestShardsDoNotStopEachOther(t *testing.T) {
	t.Parallel()
	one, other := testenv.Postgres(t), testenv.Postgres(t)
	list := filepath.Join(t.TempDir(), "shards")
	check.OK(t, os.WriteFile(list, []byte(fmt.Sprintf("a %s\nb %s\n", one.Database(t), other.Database(t))), 0o600))
	s, err := store.Open(t.Context(), "shards://"+list)
	check.OK(t, err)
	t.Cleanup(func() { check.OK(t, s.Close()) })
	d := s.(*shardstore.Store).Directory()
	tenantOn := func(shard string) string {
		for i := 0; ; i++ {
			if tenant := fmt.Sprint("tenant-", i); d.Of(tenant) == shard {
				return tenant
			}
		}
	}
	put := func(shard string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return s.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: "k", Tenant: tenantOn(shard), ID: "r"}}, Expect: store.AnyVersion}}})
	}
	check.OK(t, put("a"))
	check.OK(t, put("b"))
	other.Kill()
	for range 20 {
		check.OK(t, put("a"))
	}
	if err := put("b"); err == nil {
		t.Error("a commit to the shard that is down succeeded")
	}
	if _, err := s.List(t.Context(), store.Query{Kind: "k"}); err == nil {
		t.Error("a list of all tenants succeeded without one of the shards")
	}
	other.Start()
	if !until(func() bool { return put("b") == nil }) {
		t.Error("the shard is back, and its tenants are not")
	}
	if !until(func() bool {
		page, err := s.List(t.Context(), store.Query{Kind: "k"})
		return err == nil && len(page.Records) == 2
	}) {
		t.Error("the shard is back, and lists fail")
	}
}
