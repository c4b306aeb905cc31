package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/remote"

	_ "github.com/abidehq/abide/store/memstore"
)

// The shop's own routes, Abide's page and its API are in one process; another one uses the
// same handles through the API.
func TestMounted(t *testing.T) {
	t.Parallel()
	engine, err := abide.Open(t.Context(), abide.Config{Store: "memory://", Register: []abide.Definition{Order, Ship}, WorkerName: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	mux, _, err := routes(engine)
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

	resp, err = http.Get(web.URL + "/abide/instances/default/order-17")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(page), "parcel of order 17") {
		t.Errorf("%d %v %.500s", resp.StatusCode, err, page)
	}
}
