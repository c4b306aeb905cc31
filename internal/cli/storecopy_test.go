package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	clistore "github.com/abidehq/abide/internal/cli/store"

	"github.com/abidehq/abide/internal/transfer"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/pebblestore"
)

// inFolder calls f with the store in a folder.
func inFolder(t *testing.T, dir string, f func(s *pebblestore.Store)) {
	t.Helper()
	s, err := pebblestore.Open(t.Context(), dir, pebblestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func commitTo(t *testing.T, s store.Store, tx *store.Tx) {
	t.Helper()
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
}

// fillForCopy puts something into a store that takes several parcels.
func fillForCopy(t *testing.T, s store.Store) {
	t.Helper()
	for i := range 3 {
		key := store.Key{Queue: "mine", Tenant: fmt.Sprint("tenant-", i), Name: "k"}
		commitTo(t, s, &store.Tx{Put: []store.Message{{Key: key, ID: "m", Route: "r", Body: make([]byte, store.ParcelBytes-1000)}}})
	}
}

var errStop = errors.New("stop")

// stopping is a store that has enough after a few parcels.
type stopping struct {
	store.Portable
	left int
}

func (s *stopping) Import(ctx context.Context, p store.Parcel) error {
	if s.left--; s.left < 0 {
		return errStop
	}
	return s.Portable.Import(ctx, p)
}

// interrupted begins a copy of one folder into another, and leaves it in the middle.
func interrupted(t *testing.T, from, to string) {
	t.Helper()
	p, err := connect.FindStore(from)
	if err != nil {
		t.Fatal(err)
	}
	inFolder(t, from, func(source *pebblestore.Store) {
		inFolder(t, to, func(target *pebblestore.Store) {
			c := transfer.Copy{From: source, To: &stopping{target, 2}, Source: clistore.Identity(p)}
			if _, err := c.Run(t.Context()); !errors.Is(err, errStop) {
				t.Fatal(err)
			}
		})
	})
}

func TestStoreCopyGoesOn(t *testing.T) {
	t.Parallel()
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	inFolder(t, from, func(s *pebblestore.Store) { fillForCopy(t, s) })
	interrupted(t, from, to)

	code, out, _ := invoke(t, "store", "check", to)
	if code != ExitFailure || !strings.Contains(out, "the store is not the target of an unfinished copy, but\n  a copy into it was begun") {
		t.Errorf("check: code %d, %s", code, out)
	}
	if code, _, errs := invoke(t, "store", "stats", to); code != ExitOK {
		t.Errorf("stats: code %d, %s", code, errs)
	}
	if code, _, errs := invoke(t, "store", "copy", to, filepath.Join(t.TempDir(), "x")); code != ExitConflict || !strings.Contains(errs, "unfinished copy") {
		t.Errorf("copy of a part: code %d, %s", code, errs)
	}
	other := filepath.Join(t.TempDir(), "other")
	inFolder(t, other, func(s *pebblestore.Store) { fillForCopy(t, s) })
	if code, _, errs := invoke(t, "store", "copy", other, to); code != ExitConflict || !strings.Contains(errs, "holds an unfinished copy of pebble://"+from) {
		t.Errorf("copy of another: code %d, %s", code, errs)
	}

	code, out, errs := invoke(t, "store", "copy", from, to)
	if code != ExitOK || !strings.Contains(out, "It went on with a copy that was interrupted.") || strings.Count(out, "yes") != 4 {
		t.Errorf("copy: code %d, %s%s", code, out, errs)
	}
	if code, out, _ := invoke(t, "store", "check", to); code != ExitOK || !strings.Contains(out, "unknown   3 messages and records are not of this release") {
		t.Errorf("check: code %d, %s", code, out)
	}
}

// TestNothingRunsOnAnUnfinishedCopy: no server, no tick loop, no command, and no bench.
func TestNothingRunsOnAnUnfinishedCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	inFolder(t, from, func(s *pebblestore.Store) { fillForCopy(t, s) })
	interrupted(t, from, to)
	for _, args := range [][]string{
		{"serve", "--addr", "127.0.0.1:0", "--store", "to"},
		{"orchestrate", "--db", "to", "--", "true"},
		{"timers", "list", "--db", "to"},
		{"instances", "start", "order", "--db", "to"},
		{"bench", "hello", "--n", "1", "--store", "pebble://to"},
	} {
		cmd := program(t, dir, args...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		end := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }) // one that runs after all
		_ = cmd.Wait()
		end.Stop()
		if code := cmd.ProcessState.ExitCode(); code != ExitConflict || !strings.Contains(out.String(), "a copy into it was begun and is not finished") {
			t.Errorf("%s: code %d, %s", args[0], code, &out)
		}
	}
	if code, _, errs := invoke(t, "store", "copy", from, to); code != ExitOK {
		t.Fatalf("copy: code %d, %s", code, errs)
	}
	if code, _, errs := invoke(t, "timers", "list", "--db", to); code != ExitOK {
		t.Errorf("list: code %d, %s", code, errs)
	}
}

func TestStoreCopyOfASourceThatHasChanged(t *testing.T) {
	t.Parallel()
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	inFolder(t, from, func(s *pebblestore.Store) { fillForCopy(t, s) })
	interrupted(t, from, to)
	inFolder(t, from, func(s *pebblestore.Store) {
		commitTo(t, s, &store.Tx{Retime: []store.Retime{{
			Ref: store.MessageRef{Key: store.Key{Queue: "mine", Tenant: "tenant-0", Name: "k"}, ID: "m"}, VisibleAt: time.Now().Add(time.Hour),
		}}})
	})
	if code, _, errs := invoke(t, "store", "copy", from, to); code != ExitConflict || !strings.Contains(errs, "begin again with an empty target") {
		t.Errorf("code %d, %s", code, errs)
	}
}

func TestStoreCopyThatDiffers(t *testing.T) {
	t.Parallel()
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	inFolder(t, from, func(s *pebblestore.Store) { fillForCopy(t, s) })
	interrupted(t, from, to)
	// Somebody has been at the target meanwhile.
	inFolder(t, to, func(s *pebblestore.Store) {
		commitTo(t, s, &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: "mine", Tenant: "tenant-1", ID: "r"}}}}})
	})
	code, out, errs := invoke(t, "store", "copy", from, to)
	if code != ExitFailure || !strings.Contains(errs, "1 of 3 tenants are not the same: tenant-1; the target must not be used") {
		t.Errorf("code %d, %s", code, errs)
	}
	if strings.Count(out, "  no\n") != 3 || !strings.Contains(out, "in the target  1     1         0        1") { // of the tenant, on either side, and of all
		t.Errorf("printed %s", out)
	}
	_, out, _ = invoke(t, "store", "copy", from, to, "-o", "json")
	if !strings.Contains(out, `"resumed":true,"same":false`) || !strings.Contains(out, `"same":false,"target":{"keys":1,"messages":1,"entries":0,"records":1,`) {
		t.Errorf("printed %s", out)
	}
}

func TestStoreCheckSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	inFolder(t, dir, func(s *pebblestore.Store) {
		tx := &store.Tx{Append: []store.Append{{Key: store.Key{Queue: "turns", Tenant: "acme", Name: "lost"}, Entries: [][]byte{nil}}}}
		for i := range clistore.ShownProblems {
			tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{Key: store.RecordKey{Kind: "timer", ID: fmt.Sprint(i)}, Status: "armed", Body: []byte{1}}})
		}
		commitTo(t, s, tx)
	})
	code, out, errs := invoke(t, "store", "check", dir)
	if code != ExitFailure || !strings.Contains(errs, "1001 problems found") {
		t.Errorf("code %d, %s", code, errs)
	}
	for _, part := range []string{
		"problems  1001\n", "It should hold that every history has the record of its instance, but\n  turns/acme/lost has a history of 1 events, and no record\n",
		"It should hold that every armed timer has the message that fires it, but\n  timer timer//0 is armed", "1 more are not shown.",
	} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is not in %.2000s", part, out)
		}
	}
	code, out, _ = invoke(t, "store", "check", dir, "--json")
	if code != ExitFailure || !strings.Contains(out, `"problem_count":1001,"problems":[{"rule":"every history has the record of its instance","found":"turns/acme/lost has`) {
		t.Errorf("code %d, %.2000s", code, out)
	}
}
