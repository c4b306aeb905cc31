package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server/telemetry"

	_ "github.com/abidehq/abide/store/memstore"
)

// The shop's own routes, Abide's page and its API are in one process; another one uses the
// same handles through the API.
func TestMounted(t *testing.T) {
	t.Parallel()
	measured, err := telemetry.New(telemetry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := abide.Open(t.Context(), abide.Config{
		Store: "memory://", Register: []abide.Definition{Order, Ship}, MeterProvider: measured.MeterProvider(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	mux, _, err := routes(engine, measured)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(mux)
	defer web.Close()

	resp, err := http.Post(web.URL+"/orders/17", "", nil)
	if err != nil || resp.StatusCode != http.StatusAccepted {
		t.Fatalf("%v %v", resp, err)
	}
	_ = resp.Body.Close()

	far, err := remote.New(web.URL + "/abide")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if err := Paid.Raise(t.Context(), far.Engine(), "order-17", true); err != nil {
		t.Fatal(err)
	}
	if result, err := Order.Instance(far.Engine(), "order-17").Result(t.Context()); err != nil || result != "parcel of order 17" {
		t.Errorf("%q, %v", result, err)
	}

	get := func(path string) string {
		resp, err := http.Get(web.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		page, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %v %.500s", path, resp.StatusCode, err, page)
		}
		return string(page)
	}
	if page := get("/abide/instances/default/order-17"); !strings.Contains(page, "parcel of order 17") {
		t.Errorf("the page of the instance: %.500s", page)
	}
	if page := get("/abide/metrics"); !strings.Contains(page, "abide_") {
		t.Errorf("the metrics: %.500s", page)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _ = measured.Run(ctx) }()
	for charts, tick := false, time.Tick(100*time.Millisecond); !charts; <-tick { // they need two samples
		charts = strings.Contains(get("/abide/"), `id="charts"`)
	}
}

// TestSocket: the command line reaches the shop beside its store, without an address.
func TestSocket(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, abide.Config{Store: "pebble://" + dir + "/data"}, listener) }()
	far, err := remote.New("unix://" + dir + "/data.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	for tick := time.Tick(10 * time.Millisecond); ; <-tick {
		_, err := Order.Start(t.Context(), far.Engine(), "17", abide.ID("order-17"))
		if err == nil {
			break
		}
		if !errors.Is(err, remote.ErrUnreachable) {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestStop: a request that is under way when the program is told to stop meets an engine that is open.
func TestStop(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, abide.Config{Store: "memory://"}, listener) }()
	body, send := net.Pipe()
	answered := make(chan int, 1)
	go func() {
		client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+listener.Addr().String()+"/abide/api/v1/instances", body)
		r.Header.Set("Expect", "100-continue") // the body is sent when the handler reads it
		r.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(r)
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		defer resp.Body.Close()
		answered <- resp.StatusCode
	}()
	if _, err := send.Write([]byte(`{"orchestration": "order", `)); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := send.Write([]byte(`"input": "17"}`)); err != nil {
		t.Fatal(err)
	}
	_ = send.Close()
	if got := <-answered; got != http.StatusCreated {
		t.Errorf("a request under way is answered with %d", got)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
