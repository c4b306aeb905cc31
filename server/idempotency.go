package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/sweep"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
)

const (
	headerIdempotencyKey = "Idempotency-Key"
	headerReplayed       = "Idempotent-Replayed"

	// MaxIdempotencyKey is the longest key, in bytes.
	MaxIdempotencyKey = 255

	// MaxIdempotencyKeys is how many new keys a caller may use within [IdempotencyLife], in
	// each process, unless the configuration says otherwise.
	MaxIdempotencyKeys = 10_000_000

	// IdempotencyLife is how long the answer to a request with a key is kept.
	IdempotencyLife = 24 * time.Hour

	// idempotencyWait is how long a request with a key may take before it counts as that
	// of a server which is gone.
	idempotencyWait = time.Minute

	kindIdempotency = "idempotency"

	tokensPath = "/api/v1/tokens"

	statusUnderWay = "pending"
	statusAnswered = "completed"
)

// answered is what is kept of a request with a key: that it is under way, or its answer.
type answered struct {
	Request string `json:"request"` // a hash of all that was asked
	Status  int    `json:"status,omitempty"`
	Type    string `json:"type,omitempty"`
	ETag    string `json:"etag,omitempty"`
	Body    []byte `json:"body,omitempty"`
}

// once answers requests with an Idempotency-Key: the first time by doing it, after that with
// the answer that was given then. It stands behind the guard of a route: nothing is kept of a
// request that its caller may not make, or that has no route.
func (s *Server) once(most int64) func(huma.Context, func(huma.Context)) {
	return func(hctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(hctx)
		values := r.Header.Values(headerIdempotencyKey)
		if s.cfg.Store == nil || len(values) == 0 {
			next(hctx)
			return
		}
		if err := checkKey(values); err != nil {
			writeProblem(w, newProblem(http.StatusBadRequest, api.CodeInvalid, "invalid request", err.Error()))
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
		if err != nil {
			if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
				writeProblem(w, newProblem(http.StatusRequestEntityTooLarge, api.CodeTooLarge, "request too large",
					fmt.Sprintf("%d bytes are allowed", large.Limit)))
				return
			}
			writeProblem(w, newProblem(http.StatusBadRequest, api.CodeInvalid, "invalid request", "its body could not be read"))
			return
		}
		ctx := hctx.Context()
		q := requestOf(ctx)
		q.key = values[0]
		who, _ := auth.Of(ctx)
		k := keyed{
			s: s, caller: caller(&who), record: store.RecordKey{Kind: kindIdempotency, ID: hash(caller(&who), q.key)},
			request: hash(r.Method, r.URL.RequestURI(), string(body)),
		}
		old, p := k.begin(ctx)
		switch {
		case p != nil:
			if k.wait > 0 {
				w.Header().Set("Retry-After", strconv.Itoa(int(k.wait.Seconds())+1))
			}
			writeProblem(w, p)
		case old != nil:
			w.Header().Set(headerReplayed, "true")
			old.write(w)
		default:
			r = r.WithContext(ctx)
			r.Body = io.NopCloser(bytes.NewReader(body))
			k.do(ctx, w, func(rec http.ResponseWriter) { next(humago.NewContext(hctx.Operation(), r, rec)) })
		}
	}
}

func checkKey(values []string) error {
	if len(values) > 1 {
		return fmt.Errorf("there are %d headers %s; one is allowed", len(values), headerIdempotencyKey)
	}
	if n := len(values[0]); n == 0 || n > MaxIdempotencyKey {
		return fmt.Errorf("%s has %d bytes; 1 to %d are allowed", headerIdempotencyKey, n, MaxIdempotencyKey)
	}
	for _, c := range []byte(values[0]) {
		if c < 0x20 || c > 0x7e {
			return fmt.Errorf("%s has the byte %#x; printable ASCII is allowed", headerIdempotencyKey, c)
		}
	}
	return nil
}

// caller says who a key is of. People of the same name who are known in different ways, or
// may do different things, have nothing to do with each other.
func caller(who *auth.Identity) string {
	return hash(append([]string{string(who.Kind), who.Subject, string(who.Role)}, who.Tenants...)...)
}

func hash(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// keyed is a request with a key.
type keyed struct {
	s       *Server
	caller  string
	record  store.RecordKey
	request string
	version int64         // of the record that says it is under way
	wait    time.Duration // until the caller may use another key, if there were too many
}

// begin notes that the request is under way. If it was made before, it returns the answer
// that was given, or a problem.
func (k *keyed) begin(ctx context.Context) (old *answered, p *api.Problem) {
	conflict := func(err error) bool { return errors.Is(err, store.ErrConflict) }
	err := backoff.Retry(ctx, k.s.clock, conflict, func() error {
		old, p = nil, nil
		r, err := k.s.cfg.Store.Get(ctx, k.record)
		switch {
		case errors.Is(err, store.ErrNotFound):
			most := k.s.cfg.IdempotencyKeys
			if k.wait = k.s.keys.Take(k.caller, float64(most)/IdempotencyLife.Seconds(), most); k.wait > 0 {
				p = newProblem(http.StatusTooManyRequests, api.CodeQuota, "too many idempotency keys",
					fmt.Sprintf("a caller may use %d new ones in %v", most, IdempotencyLife))
				return nil
			}
			return k.put(ctx, 0, statusUnderWay, &answered{Request: k.request})
		case err != nil:
			return err
		}
		old = &answered{}
		if err := json.Unmarshal(r.Body, old); err != nil {
			return fmt.Errorf("record of an idempotency key: %w: %w", err, store.ErrCorrupt)
		}
		switch now := k.s.clock.Now(); {
		case now.Sub(r.Time) > IdempotencyLife, // and nobody has removed it yet
			r.Status == statusUnderWay && old.Request == k.request && now.Sub(r.Time) > idempotencyWait:
			old = nil
			return k.put(ctx, r.Version, statusUnderWay, &answered{Request: k.request})
		case old.Request != k.request:
			p = newProblem(http.StatusUnprocessableEntity, api.CodeKeyReused, "idempotency key reused",
				"a key stands for one request, with the same path and body; it is kept for "+IdempotencyLife.String())
		case r.Status == statusUnderWay:
			p = newProblem(http.StatusConflict, api.CodeUnderWay, "request in progress", "it was sent before with the same key, and has no answer yet; try again in a second")
		}
		return nil
	})
	if err != nil {
		return nil, k.s.asProblem(err)
	}
	return old, p
}

func (k *keyed) put(ctx context.Context, expect int64, status string, a *answered) error {
	body, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("keep an answer: %w", err)
	}
	err = k.s.cfg.Store.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{{
		Expect: expect,
		Record: store.Record{Key: k.record, Status: status, Time: k.s.clock.Now(), Body: body},
	}}})
	if err == nil {
		k.version = expect + 1
	}
	return err
}

// do has the request answered, and keeps the answer. What may go better the next time is
// not kept.
func (k *keyed) do(ctx context.Context, w http.ResponseWriter, next func(http.ResponseWriter)) {
	rec := &recorder{header: w.Header()}
	done := false
	// The answer counts even if the client has gone.
	ctx = context.WithoutCancel(ctx)
	defer func() {
		if !done { // a panic
			k.forget(ctx)
		}
	}()
	next(rec)
	done = true
	a := &answered{Request: k.request, Status: rec.status, Type: w.Header().Get("Content-Type"), ETag: w.Header().Get("ETag"), Body: rec.body.Bytes()}
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	again := a.Status >= http.StatusInternalServerError || a.Status == http.StatusTooManyRequests ||
		a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden
	if again {
		k.forget(ctx)
	} else if err := k.put(ctx, k.version, statusAnswered, a); err != nil {
		k.s.log.Warn("response not stored under its idempotency key", "request_id", requestOf(ctx).id, "error", err)
	}
	a.write(w)
}

// forget lets the next request with the key be the first.
func (k *keyed) forget(ctx context.Context) {
	err := k.s.cfg.Store.Commit(ctx, &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: k.record, Expect: k.version}}})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		k.s.log.Warn("idempotency key not released, it expires in a minute", "request_id", requestOf(ctx).id, "error", err)
	}
}

func (a *answered) write(w http.ResponseWriter) {
	if a.Type != "" {
		w.Header().Set("Content-Type", a.Type)
	}
	if a.ETag != "" {
		w.Header().Set("ETag", a.ETag)
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the client may be gone
}

// recorder keeps an answer instead of sending it.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recorder) Write(data []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(data)
}

// sweepKeys removes answers that were kept long enough.
func (s *Server) sweepKeys(ctx context.Context) error {
	_, err := sweep.Records(ctx, s.cfg.Store, store.Query{Kind: kindIdempotency, To: s.clock.Now().Add(-IdempotencyLife)}, nil)
	return err
}
