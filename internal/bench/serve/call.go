package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/abidehq/abide/server/api"
)

const instancesPath = "/api/v1/instances"

// newTransport has room for so many connections that are open between two requests.
func newTransport(clients int) *http.Transport {
	return &http.Transport{MaxIdleConns: clients, MaxIdleConnsPerHost: clients, DisableCompression: true}
}

// call makes a request, and returns its answer and how long that took, to the last byte. An
// answer that says anything but that it went well is an error.
func (w *workload) call(ctx context.Context, method, path string, body []byte) (answer []byte, took time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, method, w.server.address+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, fmt.Errorf("bench: make a request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	began := time.Now()
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, 0, fmt.Errorf("bench: send a request: %w", err)
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	took = time.Since(began)
	if err != nil {
		return nil, 0, fmt.Errorf("bench: read the answer to %s %s: %w", method, path, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, 0, fmt.Errorf("bench: %s %s is answered with %s: %s", method, path, resp.Status, answer)
	}
	return answer, took, nil
}

// get makes a request that changes nothing.
func (w *workload) get(ctx context.Context, path string) (answer []byte, took time.Duration, err error) {
	return w.call(ctx, http.MethodGet, path, nil)
}

// start starts a hello, with a random ID if there is none.
func (w *workload) start(ctx context.Context, id string) (started string, err error) {
	body, err := json.Marshal(api.NewInstance{Tenant: tenant, ID: id, Orchestration: hello.Name(), Input: helloJSON})
	if err != nil {
		return "", fmt.Errorf("bench: make a request: %w", err)
	}
	answer, _, err := w.call(ctx, http.MethodPost, instancesPath, body)
	if err != nil {
		return "", err
	}
	var s api.Started
	if err := json.Unmarshal(answer, &s); err != nil || s.ID == "" || s.Tenant != tenant || s.Existed || (id != "" && s.ID != id) {
		return "", fmt.Errorf("bench: the answer to a start is %s", answer)
	}
	return s.ID, nil
}

// helloJSON is what a client says to hello, as it is sent.
var helloJSON = json.RawMessage(`"` + helloInput + `"`)
