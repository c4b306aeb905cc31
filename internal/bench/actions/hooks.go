package actions

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

	"github.com/abidehq/abide/action/hook"
	"github.com/abidehq/abide/internal/bench"
)

// What a sender and the hook agree on.
const (
	hookSecret      = "abide-bench-secret"
	signatureHeader = "X-Signature"
	deliveryHeader  = "X-Delivery"
)

// measureHooks has senders send webhooks over HTTP, each the next one when the one before
// was answered, and runs what was accepted after that.
func (w *workload) measureHooks(ctx context.Context, r *bench.Run) error {
	if w.duration == 0 {
		return nil
	}
	address, stop, err := w.serveHooks(ctx, r)
	if err != nil {
		return err
	}
	defer stop()
	transport := &http.Transport{MaxIdleConnsPerHost: w.clients, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: r.Patience}
	s, err := r.Loop(ctx, bench.Loop{
		Doing: "sending", Unit: "webhooks", Workers: w.clients, Duration: w.duration, Warmup: true,
		Do: func(ctx context.Context, op *bench.Op) error {
			return w.send(ctx, client, address, r.Key(op.I), bench.Bytes(uint64(op.I), w.body))
		},
	})
	if err != nil {
		return err
	}
	if _, err := w.drain(ctx, r, int(s.Total)); err != nil {
		return err // what was accepted is there, once
	}
	r.Report.Add("clients", w.clients)
	r.Report.Add("body_bytes", w.body)
	r.Report.Add("duration_s", s.Elapsed)
	r.Report.Add("requests", s.Count)
	r.Report.Add("requests_per_s", s.Rate())
	r.Report.Quantiles("latency", "ms", &s.Latency)
	r.CPU(s, "request")
	return nil
}

// serveHooks serves a hook on a port of this machine that is free.
func (w *workload) serveHooks(ctx context.Context, r *bench.Run) (address string, stop func(), err error) {
	handler, err := hook.New(hook.Config{
		Receiver: w.service, Logger: r.Logger,
		Hooks: []hook.Hook{{
			Slug: tenant, Tenant: tenant, Target: target, Rate: -1,
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
	server := &http.Server{Handler: handler, ReadHeaderTimeout: r.Patience}
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
func (w *workload) send(ctx context.Context, client *http.Client, address, delivery string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("bench: make a webhook: %w", err)
	}
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write(body)
	req.Header.Set(signatureHeader, hex.EncodeToString(mac.Sum(nil)))
	req.Header.Set(deliveryHeader, delivery)
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
