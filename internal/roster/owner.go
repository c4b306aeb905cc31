package roster

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Owner returns the owner of the claims of a worker ([store.ClaimRequest]): what people call it, and its
// ID, such as "till@shop:42 7f3a". A name that is long is cut.
func Owner(id, name, process string) string {
	label := process
	if name != "" && name != label {
		label = name + "@" + label
	}
	label = base.CleanText(label, store.MaxOwner-1-len(id))
	return label + " " + id
}

// ParseOwner returns what people call the owner of a claim, and the ID of its worker. One that is
// no worker, such as the loop that fires timers, has no ID.
func ParseOwner(owner string) (label, id string) {
	at := strings.LastIndexByte(owner, ' ')
	if at < 0 {
		return owner, ""
	}
	return owner[:at], owner[at+1:]
}

// SeenAt returns when the worker with an ID has reported last, or the zero time if it has no
// record: it has ended, is not listed, or has been gone for longer than [Gone].
func SeenAt(ctx context.Context, s store.Store, id string) (time.Time, error) {
	r, err := s.Get(ctx, key(id))
	if errors.Is(err, store.ErrNotFound) {
		return time.Time{}, nil
	}
	return r.Time, err
}

// Owns reports whether the claims of an owner are those of the worker, or of its process.
func (w *Worker) Owns(owner string) bool {
	label, id := ParseOwner(owner)
	if id != "" {
		return id == w.ID
	}
	return label == w.Process()
}

// Process returns the name of the process of the worker, as [base.ProcessName] does for this one.
func (w *Worker) Process() string { return w.Host + ":" + strconv.Itoa(w.PID) }
