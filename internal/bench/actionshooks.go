package bench

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/action/hook"
)

// What a sender and the hook agree on.
const (
	hookSecret      = "abide-bench-secret"
	signatureHeader = "X-Signature"
	deliveryHeader  = "X-Delivery"
)

// measureHooks has senders send webhooks over HTTP, each the next one when the one before
// was answered, and runs what was accepted after that.
func (r *actionsRun) measureHooks(ctx context.Context) error {
	if r.opts.Duration == 0 {
		return nil
	}
	address, stop, err := r.serveHooks(ctx)
	if err != nil {
		return err
	}
	defer stop()
	transport := &http.Transport{MaxIdleConnsPerHost: r.opts.Clients, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: r.opts.Patience}
	var taken, done atomic.Int64
	finish := r.opts.Progress.Watch("sending", "webhooks", 0, done.Load)
	senders := make([]Histogram, r.opts.Clients)
	s := &sample{}
	watch := startWatch()
	c := newCrew(ctx)
	for k := range senders {
		c.do(func(ctx context.Context) error {
			for time.Since(watch.start) < r.opts.Duration {
				i := int(taken.Add(1)) - 1
				began := time.Now()
				if err := r.send(ctx, client, address, i); err != nil {
					return err
				}
				senders[k].Record(time.Since(began))
				done.Add(1)
			}
			return nil
		})
	}
	err = c.wait()
	watch.stop(s)
	finish()
	if err != nil {
		return err
	}
	s.count = done.Load()
	for k := range senders {
		s.latency.Merge(&senders[k])
	}
	if _, err := r.drain(ctx, "running", int(s.count)); err != nil {
		return err // what was accepted is there, once
	}
	r.reportHooks(s)
	return nil
}

// serveHooks serves a hook on a port of this machine that is free.
func (r *actionsRun) serveHooks(ctx context.Context) (address string, stop func(), err error) {
	handler, err := hook.New(hook.Config{
		Receiver: r.service, Logger: r.opts.Logger,
		Hooks: []hook.Hook{{
			Slug: tenant, Tenant: tenant, Target: actionsTarget, Rate: -1,
			Verify: hook.HMAC{Secrets: []hook.Secret{hook.NewSecret(hookSecret)}, Header: signatureHeader, DeliveryHeader: deliveryHeader},
		}},
	})
	if err != nil {
		return "", nil, fmt.Errorf("bench: make a hook: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("bench: listen for webhooks: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: r.opts.Patience}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = server.Serve(listener) // it ends when it is closed
	}()
	return "http://" + listener.Addr().String() + "/hooks/" + tenant, func() {
		_ = server.Close()
		<-over
	}, nil
}

// send sends a webhook, and returns when it is acknowledged.
func (r *actionsRun) send(ctx context.Context, client *http.Client, address string, i int) error {
	body := payload(uint64(i), r.opts.Body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("bench: make a webhook: %w", err)
	}
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write(body)
	req.Header.Set(signatureHeader, hex.EncodeToString(mac.Sum(nil)))
	req.Header.Set(deliveryHeader, r.id(i))
	answer, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("bench: send a webhook: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("bench: read the answer to a webhook: %w", err)
	}
	if answer.StatusCode != http.StatusAccepted {
		return fmt.Errorf("bench: a webhook is answered with %s: %s", answer.Status, text)
	}
	return nil
}

func (r *actionsRun) reportHooks(s *sample) {
	p := &r.report
	p.count(figClients, int64(r.opts.Clients))
	p.count(figBody, int64(r.opts.Body))
	p.number(figDuration, s.elapsed.Seconds())
	p.count(figRequests, s.count)
	p.number(figRequested, s.perSecond())
	p.number(figRequestP50, millis(s.latency.Quantile(0.50)))
	p.number(figRequestP99, millis(s.latency.Quantile(0.99)))
	p.number(figRequestMax, millis(s.latency.Max()))
	if s.hasCPU {
		p.number(figRequestCPU, s.cpuEach())
	}
}
