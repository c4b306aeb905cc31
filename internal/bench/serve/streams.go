package serve

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/abidehq/abide/internal/bench"
)

const (
	// openers is how many streams are opened at a time: what the machine keeps of
	// connections that nobody has accepted yet is limited.
	openers = 64

	streamKind = "text/event-stream"
)

// measureStreams has clients follow changes while instances are started at a rate, and
// reports how long it takes until a change has reached all of them.
func (w *workload) measureStreams(ctx context.Context) error {
	n := w.streams
	if n == 0 {
		return nil
	}
	w.run.Progress.Say("opening %d streams", n)
	before := bench.Memory()
	rc := newReach(w.run.ID, n)
	transport := newTransport(n)
	defer transport.CloseIdleConnections()
	g, ctx := errgroup.WithContext(ctx)
	following, stop := context.WithCancel(ctx)
	defer stop()
	var opened atomic.Int64
	turn := make(chan struct{}, openers)
	for range n {
		g.Go(func() error {
			turn <- struct{}{}
			f, err := w.follow(following, transport)
			<-turn
			if err == nil {
				opened.Add(1)
				err = f.read(rc)
				_ = f.body.Close()
			}
			if following.Err() == nil {
				return err
			}
			return nil // the end of the run has ended the stream
		})
	}
	g.Go(func() error {
		defer stop()
		err := w.run.Await(ctx, func() string { return fmt.Sprintf("%d of %d streams are open", opened.Load(), n) },
			func() (bool, int64, error) { return opened.Load() == int64(n), opened.Load(), nil })
		if err != nil {
			return err
		}
		if err := w.change(ctx, rc); err != nil {
			return err
		}
		if open := bench.Memory(); open > 0 {
			w.run.Report.Add("rss_streams_mib", open)
			w.run.Report.Add("stream_kib", max(open-before, 0)*kibPerMiB/float64(n))
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return err
	}
	h := rc.latency()
	w.run.Report.Add("streams", n)
	w.run.Report.Add("changes", h.Count())
	w.run.Report.Quantiles("stream", "ms", h)
	return nil
}

const kibPerMiB = 1024

// change starts instances at the rate of the options, and waits until all streams were told
// that each has completed.
func (w *workload) change(ctx context.Context, rc *reach) error {
	_, err := w.run.Loop(ctx, bench.Loop{
		Doing: "starting", Unit: "instances", Workers: 1, N: int64(w.changes), Rate: w.rate,
		Do: func(ctx context.Context, op *bench.Op) error {
			_, err := w.start(ctx, w.run.Key(op.I))
			return err
		},
	})
	if err != nil {
		return err
	}
	err = w.run.Await(ctx, func() string {
		completed, _ := rc.progress()
		return fmt.Sprintf("all %d streams were told of the end of %d of %d instances", w.streams, completed, w.changes)
	}, func() (bool, int64, error) {
		completed, told := rc.progress()
		return completed >= w.changes, told, nil
	})
	if err != nil {
		return err
	}
	return rc.check(w.changes, func(i int) string { return w.run.Key(int64(i)) })
}

// follow opens a stream, and returns it when nothing escapes it any more.
func (w *workload) follow(ctx context.Context, transport http.RoundTripper) (*follower, error) {
	query := url.Values{"tenant": {tenant}, "orchestration": {hello.Name()}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.server.address+instancesPath+"/stream?"+query.Encode(), http.NoBody)
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
