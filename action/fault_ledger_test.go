package action_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/store/storetest"
)

// askedAction is what was asked about one action. A call that failed may have happened or not.
type askedAction struct {
	added   bool // a call returned so
	cancels int  // that may have happened
	retries int
}

func (w *faultWorld) add(s *process, req action.Request) error {
	req.Tenant, req.Slug = "acme", "app"
	fillIn(&req.Target, "do")
	asked := w.Entry(req.ID)
	a, _, err := s.Add(context.Background(), req)
	if err == nil {
		asked.added = true
		if a.ID != req.ID {
			err = fmt.Errorf("action %s was added, and %s is there", req.ID, a.ID)
		}
	}
	return w.unexpected("add", err)
}

// receive receives a webhook, whose body is its delivery.
func (w *faultWorld) receive(s *process, delivery, target string) (id string, err error) {
	a, _, err := s.Receive(context.Background(), action.Received{
		Tenant: "acme", Slug: "app", Target: target, Delivery: delivery,
		Body: []byte("body of " + delivery), Header: map[string]string{"Delivery": delivery},
	})
	if err == nil {
		w.Entry(a.ID).added = true
	}
	return a.ID, w.unexpected("receive", err)
}

func (w *faultWorld) cancel(s *process, id string) error {
	asked := w.Entry(id)
	// From now on its run may be over or not: who runs it elsewhere learns it a little later.
	w.interrupt(id, true)
	_, err := s.Cancel(context.Background(), "acme", id, "")
	if err == nil || errors.Is(err, storetest.ErrFault) {
		asked.cancels++
	} else {
		w.interrupt(id, false)
	}
	return w.unexpected("cancel", err, action.ErrState, action.ErrNotFound)
}

// interrupt notes that the runs of an action which are under way are interrupted, or not.
func (w *faultWorld) interrupt(id string, interrupted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		if r.id == id && r.ended.IsZero() {
			r.interrupted = interrupted
		}
	}
}

func (w *faultWorld) retry(s *process, id string) error {
	asked := w.Entry(id)
	_, err := s.Retry(context.Background(), "acme", id)
	if err == nil || errors.Is(err, storetest.ErrFault) {
		asked.retries++
	}
	return w.unexpected("retry", err, action.ErrState, action.ErrNotFound)
}

// unexpected notes errors that nobody expects, and returns the error.
func (w *faultWorld) unexpected(verb string, err error, expected ...error) error {
	for _, e := range append(expected, storetest.ErrFault) {
		if err == nil || errors.Is(err, e) {
			return err
		}
	}
	w.Problem("%s: %v", verb, err)
	return err
}

// someBehaviour is what runs of the scenario do, by the beginning of their ID.
func someBehaviour(ctx context.Context, r action.Run) (action.Outcome, error) {
	switch id := r.Action.ID; {
	case strings.HasPrefix(id, "slow"):
		return takes(9*time.Second)(ctx, r)
	case strings.HasPrefix(id, "fail"):
		return action.Outcome{}, errRun
	case strings.HasPrefix(id, "once") && r.Action.Attempt == 1:
		return action.Outcome{}, errRun
	default:
		return action.Outcome{}, nil
	}
}
