package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
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
	closed := func(p shardstore.Progress) {
		if p.Closed > 0 && p.Done == p.Of {
			fmt.Println(p.Closed.Milliseconds())
		}
	}
	err = s.Resume(ctx, closed)
	if err == nil {
		err = s.Move(ctx, shardstore.OneTenant(e.Tenant), e.To, closed)
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
	// A tenant whose mover was killed while it was closed is open again after half a minute.
	f.outage = 40 * time.Second
	stop := f.load(2*every, f.start)
	moved := append([]string{""}, tenants...)
	killed := 0
	for i := range rounds(6, 20) {
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
		// Most moves take less than a second: the mover is killed within that.
		if !f.send(e, time.Duration(f.rnd.IntN(1200))*time.Millisecond) {
			killed++
		}
	}
	check.OK(t, (&errand{List: list, To: f.elsewhere("")}).run(t.Context()))
	stop()
	f.check()
	t.Logf("%d of the movers were killed", killed)
	if killed == 0 {
		t.Error("no mover was killed")
	}
}

// elsewhere returns the shard that a tenant is not on.
func (f *fleet) elsewhere(tenant string) string {
	if f.store.(*shardstore.Store).Directory().Of(tenant) == "a" {
		return "b"
	}
	return "a"
}

// send starts a mover, kills it after a while, and reports whether it had finished before.
func (f *fleet) send(e errand, after time.Duration) (finished bool) {
	f.t.Helper()
	text, err := json.Marshal(e)
	check.OK(f.t, err)
	self, err := os.Executable()
	check.OK(f.t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), moverVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	exited, err := testenv.Spawn(cmd)
	check.OK(f.t, err)
	if !within(after, func() bool {
		select {
		case <-exited:
			return true
		default:
			return false
		}
	}) {
		_ = cmd.Process.Signal(syscall.SIGKILL) // it may end by itself just now
	}
	<-exited
	return cmd.ProcessState.Success()
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
