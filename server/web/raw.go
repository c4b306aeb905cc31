package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/server/auth"
)

// rawBytes is about how much of a history is in memory while it is sent as JSON.
const rawBytes = 1 << 20

// rawHistory answers with history as JSON, which package abidetest replays. It is read and
// sent in parts. If a later part cannot be read, the connection is closed before the end of
// the JSON, so that the client cannot take it for a whole history.
func (s *site) rawHistory(w http.ResponseWriter, r *http.Request) {
	req := s.request(r)
	ref, err := req.ref()
	if err == nil && !req.who.Role.Includes(auth.Read) {
		err = errReadOnly
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	execution, _ := strconv.Atoi(req.value("execution")) // 0 is the latest
	info, err := s.engine.Get(r.Context(), ref)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	part, more, err := s.engine.HistoryPart(r.Context(), ref, abide.HistoryRange{Execution: max(0, execution), After: 0, MaxBytes: rawBytes})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	out := historyWriter{w: w}
	begin := func() error {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		return out.begin(part)
	}
	for err = begin(); err == nil; {
		if err = out.events(part.Events); err != nil || !more {
			break
		}
		after := part.Events[len(part.Events)-1].ID
		if part, more, err = s.engine.HistoryPart(r.Context(), ref, abide.HistoryRange{Execution: part.Execution, After: int(after), MaxBytes: rawBytes}); err == nil {
			err = s.sameInstance(r.Context(), ref, &info)
		}
	}
	if err == nil {
		err = out.end()
	}
	if err != nil {
		if !gone(r, err) && !out.failed {
			s.log.ErrorContext(r.Context(), "history not sent", "tenant", ref.Tenant, "instance", ref.ID, "error", err)
		}
		panic(http.ErrAbortHandler) // closes the connection
	}
}

// errRestarted: the history that is being sent is not kept any more.
var errRestarted = errors.New("web: the instance was restarted or replaced while its history was sent")

// sameInstance returns an error if the instance was restarted since info was read: parts of
// two histories do not make one.
func (s *site) sameInstance(ctx context.Context, ref abide.Ref, info *abide.Info) error {
	now, err := s.engine.Get(ctx, ref)
	if err == nil && !now.StartedAt.Equal(info.StartedAt) {
		err = errRestarted
	}
	return err
}

// historyWriter writes a history as JSON, as [json.MarshalIndent] would.
type historyWriter struct {
	w      http.ResponseWriter
	some   bool // an event was written
	failed bool // the client does not take it
}

// begin writes all but the events.
func (o *historyWriter) begin(h abide.History) error {
	h.Events = []history.Event{}
	data, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return err
	}
	open, found := bytes.CutSuffix(data, []byte("]\n}"))
	if !found {
		return fmt.Errorf("web: a history without events ends with %q", data[max(0, len(data)-8):])
	}
	return o.write(open)
}

func (o *historyWriter) events(events []history.Event) error {
	for i := range events {
		data, err := json.MarshalIndent(events[i], "    ", "  ")
		if err != nil {
			return err
		}
		before := ",\n    "
		if !o.some {
			o.some, before = true, before[1:]
		}
		if err := o.write(append([]byte(before), data...)); err != nil {
			return err
		}
	}
	return nil
}

func (o *historyWriter) end() error {
	if o.some {
		return o.write([]byte("\n  ]\n}\n"))
	}
	return o.write([]byte("]\n}\n"))
}

func (o *historyWriter) write(data []byte) error {
	_, err := o.w.Write(data)
	o.failed = o.failed || err != nil
	return err
}
