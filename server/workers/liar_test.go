package workers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/workerlink"
	"github.com/abidehq/abide/internal/workerpb"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/workers"
	"github.com/abidehq/abide/store/memstore"
)

// TestCredentials: a worker needs a token with the role worker.
func TestCredentials(t *testing.T) {
	t.Parallel()
	st := memstore.New(memstore.Options{})
	t.Cleanup(func() { check.OK(t, st.Close()) })
	guard, err := auth.New(auth.Config{Store: st, Logger: quiet()})
	check.OK(t, err)
	h := startHost(t, st, func(c *workers.Config) { c.Auth = guard })
	token := func(role auth.Role, tenants ...string) string {
		t.Helper()
		_, secret, err := guard.CreateToken(auth.With(t.Context(), auth.Identity{Role: auth.Admin}), auth.NewToken{Name: "test", Role: role, Tenants: tenants})
		check.OK(t, err)
		return secret
	}
	for name, c := range map[string]struct{ token, want string }{
		"none":    {"", "says not who makes it"},
		"unknown": {strings.Replace(token(auth.Worker), "abide_", "abide_a", 1), "token"},
		"role":    {token(auth.Operate), "the role operate may not run code; a worker needs the role worker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := abide.Open(soon(t), abide.Config{Store: h.url, Token: c.token, Register: []abide.Definition{child}, Logger: quiet()})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one that says %q", err, c.want)
			}
		})
	}
	serving := func(names ...string) string {
		t.Helper()
		_, secret, err := guard.CreateToken(auth.With(t.Context(), auth.Identity{Role: auth.Admin}), auth.NewToken{Name: "test", Role: auth.Worker, Serve: names})
		check.OK(t, err)
		return secret
	}
	t.Run("names", func(t *testing.T) {
		t.Parallel()
		act := abide.NewActivity("act", func(context.Context, int) (int, error) { return 0, nil })
		open := func(token string) error {
			e, err := abide.Open(soon(t), abide.Config{Store: h.url, Token: token, Register: []abide.Definition{child, act}, Logger: quiet()})
			if err == nil {
				check.OK(t, e.Close())
			}
			return err
		}
		check.OK(t, open(serving("child", "a*")))
		for token, want := range map[string]string{
			serving("act"):           `the orchestration "child"; allowed: act`,
			serving("child", "act2"): `the activity "act"; allowed: act2, child`,
			serving("chil", "act"):   `the orchestration "child"`,
		} {
			if err := open(token); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, want one that says %q", err, want)
			}
		}
	})
	t.Run("worker", func(t *testing.T) {
		t.Parallel()
		e := h.work(func(c *abide.Config) { c.Token = token(auth.Worker) }, child)
		run, err := child.Start(soon(t), e, "a")
		check.OK(t, err)
		_, err = run.Result(soon(t))
		check.OK(t, err)
		page, err := e.List(soon(t), abide.Filter{}) // by the HTTP API, with the same token
		check.OK(t, err)
		check.Equal(t, "instances", len(page.Instances), 1)
	})
}

// TestRevokedToken: the session of a worker ends when its token is revoked, and no other begins.
func TestRevokedToken(t *testing.T) {
	t.Parallel()
	st := memstore.New(memstore.Options{})
	t.Cleanup(func() { check.OK(t, st.Close()) })
	guard, err := auth.New(auth.Config{Store: st, Logger: quiet()})
	check.OK(t, err)
	h := startHost(t, st, func(c *workers.Config) { c.Auth, c.Recheck = guard, 10*time.Millisecond })
	as := auth.With(t.Context(), auth.Identity{Role: auth.Admin})
	token, secret, err := guard.CreateToken(as, auth.NewToken{Name: "test", Role: auth.Worker})
	check.OK(t, err)
	h.work(func(c *abide.Config) { c.Token = secret }, child)
	connected := func() bool {
		ws, err := h.engine.Workers(t.Context())
		check.OK(t, err)
		return len(ws) > 0
	}
	check.Eventually(t, "the worker is listed", connected)
	check.OK(t, guard.RevokeToken(as, token.ID))
	check.Eventually(t, "the worker is gone", func() bool { return !connected() })
}

// liar is a worker that says what it likes.
type liar struct {
	t      *testing.T
	stream workerpb.Workers_WorkClient
}

func (h *host) lie(hello *workerpb.Hello) *liar {
	h.t.Helper()
	_, stream := h.dialLiar(hello)
	return &liar{h.t, stream}
}

// dialLiar connects a liar, which says hello.
func (h *host) dialLiar(hello *workerpb.Hello) (*grpc.ClientConn, workerpb.Workers_WorkClient) {
	h.t.Helper()
	conn, err := grpc.NewClient(h.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.OK(h.t, err)
	ctx, cancel := context.WithCancel(soon(h.t))
	h.t.Cleanup(func() {
		cancel()
		_ = conn.Close()
	})
	stream, err := workerpb.NewWorkersClient(conn).Work(ctx)
	check.OK(h.t, err)
	check.OK(h.t, stream.Send(&workerpb.FromWorker{Hello: hello}))
	return conn, stream
}

func (l *liar) send(m *workerpb.FromWorker) {
	l.t.Helper()
	check.OK(l.t, l.stream.Send(m))
}

// turn returns the first turn that the liar is sent.
func (l *liar) turn() *workerpb.Turn {
	l.t.Helper()
	for {
		m, err := l.stream.Recv()
		check.OK(l.t, err)
		if len(m.GetTurns()) > 0 {
			return m.GetTurns()[0]
		}
	}
}

// activity returns the first activity that the liar is sent.
func (l *liar) activity() *workerpb.Activity {
	l.t.Helper()
	for {
		m, err := l.stream.Recv()
		check.OK(l.t, err)
		if len(m.GetActivities()) > 0 {
			return m.GetActivities()[0]
		}
	}
}

// refused checks that the session ends with an error.
func (l *liar) refused(code codes.Code, text string) {
	l.t.Helper()
	for {
		_, err := l.stream.Recv()
		if err == nil {
			continue
		}
		if status.Code(err) != code || !strings.Contains(err.Error(), text) {
			l.t.Errorf("the session ended with %v, want %v and %q", err, code, text)
		}
		return
	}
}

// TestLies: a worker that breaks the protocol loses its session, and nothing else is harmed.
func TestLies(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	honest := func() *workerpb.Hello {
		return &workerpb.Hello{Protocol: workerlink.Protocol, Name: "liar", Orchestrations: []string{"lied"}}
	}
	h.lie(nil).refused(codes.InvalidArgument, "does not say what the worker runs")
	h.lie(&workerpb.Hello{}).refused(codes.InvalidArgument, "version 0 of the protocol")
	h.lie(&workerpb.Hello{Protocol: 1, Orchestrations: []string{".ended"}}).refused(codes.InvalidArgument, "begins with a dot")
	h.lie(&workerpb.Hello{Protocol: 1, Activities: []string{"a@b"}}).refused(codes.InvalidArgument, "has the character")
	h.lie(&workerpb.Hello{Protocol: 1, LeaseMs: 1}).refused(codes.InvalidArgument, "the lease is 1ms")
	h.lie(&workerpb.Hello{Protocol: 1, TurnSlots: -1}).refused(codes.InvalidArgument, "must not be negative")
	h.lie(&workerpb.Hello{Protocol: 1, Signatures: []*workerpb.Signature{{Name: "a", Input: []byte("{")}}}).refused(codes.InvalidArgument, "schema of the input")

	for name, m := range map[string]*workerpb.FromWorker{
		"said twice what it runs":   {Hello: honest()},
		"the result of turn 99":     {Turns: []*workerpb.TurnResult{{Id: 99}}},
		"the result of activity 99": {Activities: []*workerpb.ActivityResult{{Id: 99}}},
		"request 1 was made twice":  {Requests: []*workerpb.Request{{Id: 1, Wait: &workerpb.Wait{Id: "x"}}, {Id: 1, Wait: &workerpb.Wait{Id: "x"}}}},
	} {
		l := h.lie(honest())
		l.send(m)
		l.refused(codes.Aborted, name)
	}

	lied := abide.NewOrchestration("lied", func(abide.Context, int) (string, error) { return "the truth", nil })
	run, err := lied.Start(soon(t), h.engine, 1, abide.Unchecked())
	check.OK(t, err)
	for name, result := range map[string]*workerpb.TurnResult{
		"which code cannot do": {Events: workerlink.EncodeEvents([]history.Event{{ID: 3, Kind: history.ActivityCompleted, Ref: 1, Data: []byte("1")}})},
		"result of a turn":     {Events: [][]byte{{0xff, 0xff}}},
	} {
		l := h.lie(honest())
		result.Id = l.turn().GetId()
		l.send(&workerpb.FromWorker{Turns: []*workerpb.TurnResult{result}})
		l.refused(codes.Aborted, name)
	}
	h.work(nil, lied)
	info, err := h.engine.WaitChange(soon(t), run.Ref(), 0)
	for err == nil && !info.Status.Ended() {
		info, err = h.engine.WaitChange(soon(t), run.Ref(), info.Revision)
	}
	check.OK(t, err)
	answer, err := abide.ResultOf[string](info)
	check.OK(t, err)
	check.Equal(t, "result", answer, "the truth")
}
