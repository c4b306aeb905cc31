package roster

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// TestOwner: an owner is one that stores accept, and tells what people call the worker and its ID.
func TestOwner(t *testing.T) {
	t.Parallel()
	process := base.ProcessName()
	for name, want := range map[string]string{
		"":        process,
		process:   process,
		"till":    "till@" + process,
		"till 2":  "till 2@" + process,
		"a\nb":    "a?b@" + process,
		"a\xffb":  "a?b@" + process,
		"läufer ": "läufer @" + process,
	} {
		owner := Owner("5f3a", name, process)
		if label, id := ParseOwner(owner); label != want || id != "5f3a" {
			t.Errorf("%q: owner %q is %q with ID %q, want %q", name, owner, label, id, want)
		}
	}
	long := Owner(strings.Repeat("0", 36), strings.Repeat("ä", 500), process)
	req := store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: 1, Lease: time.Second, Owner: long}
	if err := req.Validate(); err != nil || len(long) < store.MaxOwner-1 {
		t.Errorf("%q with %d bytes: %v", long, len(long), err)
	}
	if label, id := ParseOwner("shop:42"); label != "shop:42" || id != "" {
		t.Errorf("without an ID: %q, %q", label, id)
	}
}

// TestOwns: claims of a worker have its ID, and those of its process have none.
func TestOwns(t *testing.T) {
	t.Parallel()
	host, _, _ := strings.Cut(base.ProcessName(), ":")
	w := Worker{ID: "5f3a", Host: host, PID: os.Getpid()}
	for owner, want := range map[string]bool{
		Owner("5f3a", "till", base.ProcessName()): true, Owner("77aa", "till", base.ProcessName()): false, base.ProcessName(): true, "elsewhere:1": false, "": false,
	} {
		if w.Owns(owner) != want {
			t.Errorf("%q: %t", owner, !want)
		}
	}
}

// TestSeenAt: of a worker without a record it is not known when it was seen.
func TestSeenAt(t *testing.T) {
	t.Parallel()
	s := memstore.New(memstore.Options{})
	defer s.Close()
	w := Worker{ID: "5f3a", SeenAt: noon}
	if err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{w.Put()}}); err != nil {
		t.Fatal(err)
	}
	if at, err := SeenAt(t.Context(), s, "5f3a"); err != nil || !at.Equal(noon) {
		t.Errorf("seen at %v, error %v", at, err)
	}
	if at, err := SeenAt(t.Context(), s, "77aa"); err != nil || !at.IsZero() {
		t.Errorf("one without a record: seen at %v, error %v", at, err)
	}
}
