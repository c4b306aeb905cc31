package remote

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/server/api"
)

const (
	// pollWait is how long a server is asked to wait for something to happen, and pollLimit
	// how long its answer may take: then the connection counts as broken, even if nobody
	// has said so.
	pollWait  = 30 * time.Second
	pollLimit = time.Minute

	// pollGap is how long to wait before the same is asked once more: a server that is about
	// to stop answers at once.
	pollGap = 100 * time.Millisecond

	// pauseLeast and pauseMost are how long to wait before something is tried again.
	pauseLeast = 100 * time.Millisecond
	pauseMost  = 5 * time.Second

	// startTries is how often a start is tried.
	startTries = 4
)

// problemOf returns what the server said, or nil if it is not that.
func problemOf(err error) *api.Problem {
	p, _ := errors.AsType[*api.Problem](err)
	return p
}

// call makes a request to the engine.
func (e *transport) call(ctx context.Context, method, path string, q url.Values, in, out any) error {
	return e.send(ctx, method, path, q, nil, in, out)
}

func (e *transport) send(ctx context.Context, method, path string, q url.Values, header http.Header, in, out any) error {
	_, err := e.c.send(ctx, method, path, q, header, in, out)
	if err == nil || problemOf(err) != nil {
		e.c.reached.Store(true)
	}
	if _, ok := errors.AsType[*json.MarshalerError](err); ok { // such as a time after the year 9999
		return fmt.Errorf("%w: %w", err, abide.ErrInvalid)
	}
	return err
}

// one makes a request about an instance.
func (e *transport) one(ctx context.Context, method string, ref abide.Ref, verb string, q url.Values, in, out any) error {
	path, err := instancePath(ref, verb)
	if err != nil {
		return err
	}
	return e.call(ctx, method, path, q, in, out)
}

// instancePath returns the path of an instance, or of something about it.
func instancePath(ref abide.Ref, verb string) (string, error) {
	if err := engine.CheckRef(engine.Ref(ref)); err != nil {
		return "", err
	}
	if verb == "" {
		return where("instances", ref.Tenant, ref.ID), nil
	}
	return where("instances", ref.Tenant, ref.ID, verb), nil
}

// again reports whether the same may be answered otherwise another time: the connection
// broke, or the server is about to stop, or has too much to do.
func again(err error) bool {
	p := problemOf(err)
	return p == nil || p.Code == api.CodeUnavailable || p.Code == api.CodeRate || p.Code == api.CodeUnderWay
}

// insist calls f until it succeeds or fails for good. A server that has never answered is
// not waited for.
func (e *transport) insist(ctx context.Context, f func(ctx context.Context) error) error {
	pause := backoff.Pause{Clock: e.clock, Min: pauseLeast, Max: pauseMost}
	for {
		err := e.within(ctx, f)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !again(err) || !e.c.reached.Load() {
			return err
		}
		if err := pause.Sleep(ctx); err != nil {
			return err
		}
	}
}

// within calls f with a context that ends when an answer takes too long.
func (e *transport) within(ctx context.Context, f func(ctx context.Context) error) error {
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	defer e.clock.AfterFunc(pollLimit, cancel)()
	err := f(short)
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("remote: no answer within %v: %w", pollLimit, ErrUnreachable)
	}
	return err
}

// WaitChange returns the state of an instance as soon as its revision is greater than after.
func (e *transport) WaitChange(ctx context.Context, ref abide.Ref, after int64) (abide.Info, error) {
	path, err := instancePath(ref, "")
	if err != nil {
		return abide.Info{}, err
	}
	q := url.Values{"wait": {pollWait.String()}, "after": {strconv.FormatInt(max(after, 0), 10)}}
	for {
		var out api.Instance
		err := e.insist(ctx, func(ctx context.Context) error { return e.call(ctx, http.MethodGet, path, q, nil, &out) })
		switch {
		case err == nil && out.Revision > after:
			return infoOf(&out)
		case errors.Is(err, abide.ErrNotFound) && after <= 0: // it is waited for
		case err != nil:
			return abide.Info{}, err
		}
		if err := base.Sleep(ctx, e.clock, pollGap); err != nil {
			return abide.Info{}, err
		}
	}
}

// start starts instances. It is tried again when the connection breaks: an instance that
// was started the first time is the one, or, where that would be another thing to do, the
// server knows the request by a key.
func (e *transport) start(ctx context.Context, idempotent bool, list api.NewInstances, out *api.StartedList) error {
	header := http.Header{}
	if !idempotent {
		header.Set("Idempotency-Key", rand.Text())
	}
	pause := backoff.Pause{Clock: e.clock, Min: pauseLeast, Max: pauseMost}
	for try := 1; ; try++ {
		err := e.send(ctx, http.MethodPost, "/api/v1/instances/bulk", nil, header, list, out)
		if err == nil || ctx.Err() != nil || !again(err) || errors.Is(err, abide.ErrInvalid) || !e.c.reached.Load() || try == startTries {
			return err
		}
		if err := pause.Sleep(ctx); err != nil {
			return err
		}
	}
}
