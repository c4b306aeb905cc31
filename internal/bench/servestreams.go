package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

const (
	// openers is how many streams are opened at a time: what the machine keeps of
	// connections that nobody has accepted yet is limited.
	openers = 64

	streamKind = "text/event-stream"
)

// measureStreams has clients follow what changes while instances are started, and reports
// how long it takes until a change has reached all of them.
func (r *serveRun) measureStreams(ctx context.Context) error {
	n := r.opts.Streams
	if n == 0 {
		return nil
	}
	r.opts.Progress.Say("opening %s streams", grouped(int64(n)))
	before, _ := memory()
	var open float64 // the memory while all streams are
	rc := newReach(r.name, n)
	transport := newTransport(n)
	defer transport.CloseIdleConnections()
	c := newCrew(ctx)
	following, stop := context.WithCancel(c.ctx)
	defer stop()
	opened, turn := make(chan struct{}, n), make(chan struct{}, openers)
	for range n {
		c.do(func(context.Context) error {
			turn <- struct{}{}
			f, err := r.follow(following, transport)
			<-turn
			if err == nil {
				opened <- struct{}{}
				err = f.read(rc)
				_ = f.body.Close()
			}
			if following.Err() == nil {
				return err
			}
			return nil // that it is over is what has ended the stream
		})
	}
	c.do(func(ctx context.Context) error {
		defer stop()
		if err := r.awaitOpened(ctx, opened, n); err != nil {
			return err
		}
		if err := r.startSlowly(ctx); err != nil {
			return err
		}
		err := r.awaitReached(ctx, rc)
		open, _ = memory()
		return err
	})
	if err := c.wait(); err != nil {
		return err
	}
	r.reportStreams(rc, before, open)
	return nil
}

// follow opens a stream, and returns it when nothing escapes it any more.
func (r *serveRun) follow(ctx context.Context, transport http.RoundTripper) (*follower, error) {
	query := url.Values{"tenant": {tenant}, "orchestration": {hello.Name()}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.house.address+instancesPath+"/stream?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("bench: make a request: %w", err)
	}
	req.Header.Set("Accept", streamKind)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("bench: open a stream: %w", err)
	}
	f := newFollower(resp.Body)
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != streamKind {
		err = fmt.Errorf("bench: a stream is answered with %s of type %s", resp.Status, kind)
	} else if first, readErr := f.next(); readErr != nil {
		err = readErr
	} else if first.name != "" {
		err = fmt.Errorf("bench: a stream begins with the event %q: %s", first.name, first.data)
	}
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return f, nil
}

// awaitOpened waits until all streams are open.
func (r *serveRun) awaitOpened(ctx context.Context, opened <-chan struct{}, n int) error {
	for i := range n {
		late := time.NewTimer(r.opts.Patience)
		select {
		case <-opened:
			late.Stop()
		case <-late.C:
			return fmt.Errorf("bench: %d of %d streams are open, and nothing has happened for %v", i, n, r.opts.Patience)
		case <-ctx.Done():
			late.Stop()
			return context.Cause(ctx)
		}
	}
	return nil
}

// startSlowly starts instances, at the rate that was asked for.
func (r *serveRun) startSlowly(ctx context.Context) error {
	r.opts.Progress.Say("starting %s instances, %d in a second", grouped(int64(r.opts.Changes)), r.opts.Rate)
	ticker := time.NewTicker(time.Second / time.Duration(r.opts.Rate))
	defer ticker.Stop()
	for i := range r.opts.Changes {
		if _, _, err := r.start(ctx, r.id(i)); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// awaitReached waits until all streams have been told that each instance has completed.
func (r *serveRun) awaitReached(ctx context.Context, rc *reach) error {
	seen, since := int64(-1), time.Now()
	return every(ctx, look, func() (bool, error) {
		completed, told := rc.progress()
		switch {
		case completed == r.opts.Changes:
			return true, rc.check(r.opts.Changes, r.id)
		case told != seen:
			seen, since = told, time.Now()
		case time.Since(since) >= r.opts.Patience:
			return false, fmt.Errorf("bench: all %d streams were told of the end of %d of %d instances, and nothing has happened for %v",
				r.opts.Streams, completed, r.opts.Changes, r.opts.Patience)
		}
		return false, nil
	})
}

func (r *serveRun) reportStreams(rc *reach, before, open float64) {
	p := &r.report
	h := rc.latency()
	p.count(figStreams, int64(r.opts.Streams))
	p.count(figChanges, int64(h.Count()))
	p.timed(figReach, h)
	p.number(figReachMax, millis(h.Max()))
	if open > 0 {
		p.number(figRSSStreams, open)
		p.number(figStreamEach, max(open-before, 0)*kibPerMiB/float64(r.opts.Streams))
	}
}

const kibPerMiB = 1024
