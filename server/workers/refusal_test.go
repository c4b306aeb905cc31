package workers_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/workerlink"
	"github.com/abidehq/abide/internal/workerpb"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/workers"
)

// guarded has a service ask for tokens, and returns what makes one.
func guarded(b *bubble) (guard *auth.Guard, token func(auth.Role, ...string) string) {
	guard, err := auth.New(auth.Config{Store: b.store, Logger: quiet()})
	check.OK(b.T, err)
	return guard, func(role auth.Role, tenants ...string) string {
		b.Helper()
		_, secret, err := guard.CreateToken(auth.With(b.Context(), auth.Identity{Role: auth.Admin}), auth.NewToken{Name: "test", Role: role, Tenants: tenants})
		check.OK(b.T, err)
		return secret
	}
}

// lie connects what says these messages, whatever the answers are, and returns how the session has ended; nil if it
// had not.
func (b *bubble) lie(from, token string, messages ...*workerpb.FromWorker) error {
	b.Helper()
	ctx, leave := context.WithCancel(peer.NewContext(b.Context(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))}))
	if token != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", "Bearer "+token))
	}
	up, down, ended := make(chan []byte), make(chan []byte), make(chan error, 1)
	go func() { ended <- b.service.Work(&serverEnd{end{ctx: ctx, out: down, in: up}}) }()
	go func() {
		for ctx.Err() == nil {
			select {
			case <-down:
			case <-ctx.Done():
			}
		}
	}()
	for _, m := range messages {
		data, err := proto.Marshal(m)
		check.OK(b.T, err)
		select {
		case up <- data:
		case err := <-ended:
			leave()
			return err
		}
		synctest.Wait()
	}
	synctest.Wait()
	select {
	case err := <-ended:
		leave()
		return err
	default:
		leave()
		<-ended
		return nil
	}
}

// TestRefusalsAreLogged: what is refused is logged with the reason and the address, and the same again not before a
// minute has passed.
func TestRefusalsAreLogged(t *testing.T) {
	hello := func() *workerpb.FromWorker {
		return &workerpb.FromWorker{Hello: &workerpb.Hello{Protocol: workerlink.Protocol, Name: "liar", Activities: []string{"act"}}}
	}
	answer := &workerpb.FromWorker{Activities: []*workerpb.ActivityResult{{Id: 1, Result: []byte("7")}}}
	inBubble(t, nil, func(b *bubble) {
		guard, token := guarded(b)
		b.serve(func(c *workers.Config) { c.Auth = guard })
		for i, c := range []struct {
			token    string
			messages []*workerpb.FromWorker
			what     string
			says     string
		}{
			{"", nil, "worker refused", "says not who makes it"},
			{"abide_wrong", nil, "worker refused", "token"},
			{token(auth.Operate), nil, "worker refused", "the role operate may not run code"},
			{token(auth.Worker), []*workerpb.FromWorker{{}}, "worker refused", "does not say what the worker runs"},
			{token(auth.Worker), []*workerpb.FromWorker{hello(), hello()}, "worker refused", "it has said twice what it runs"},
			{token(auth.Worker), []*workerpb.FromWorker{hello(), answer}, "worker refused", "the result of activity 1, which it was not sent or has answered"},
			{token(auth.Worker, "acme"), []*workerpb.FromWorker{hello(), {Requests: []*workerpb.Request{{Id: 1, Wait: &workerpb.Wait{Tenant: "beta", Id: "i"}}}}}, "request of a worker refused", "has no access to tenant beta"},
			{token(auth.Worker, "acme"), []*workerpb.FromWorker{hello(), {Requests: []*workerpb.Request{{Id: 1, Starts: []*workerpb.Start{{Tenant: "beta", Id: "i"}}}}}}, "request of a worker refused", "has no access to tenant beta"},
		} {
			from := fmt.Sprintf("192.0.2.%d:4000", i+1)
			said := func() int { return len(b.lines.with(`msg="`+c.what+`"`, "remote="+from, c.says)) }
			for range 3 {
				if err := b.lie(from, c.token, c.messages...); err == nil && c.what == "worker refused" {
					t.Errorf("%s: it is not refused", c.says)
				}
			}
			check.Equal(t, "lines of "+c.says, said(), 1)
			b.pass(time.Minute)
			_ = b.lie(from, c.token, c.messages...)
			check.Equal(t, "lines of "+c.says+" a minute later", said(), 2)
			check.Equal(t, "lines without a reason", len(b.lines.with("refused", "remote="+from)), 2)
		}
	})
}

// TestCapsAreChecked: a worker can limit how many attempts are in flight of activities that it runs, to one at least.
func TestCapsAreChecked(t *testing.T) {
	inBubble(t, nil, func(b *bubble) {
		for says, bound := range map[string]*workerpb.Cap{
			`the worker limits activity "other", and does not run it`: {Activity: "other", Most: 1},
			`activity "act" to 0 in flight`:                           {Activity: "act"},
			`activity "act" to -1 in flight`:                          {Activity: "act", Most: -1},
		} {
			err := b.lie("192.0.2.1:4000", "", &workerpb.FromWorker{Hello: &workerpb.Hello{
				Protocol: workerlink.Protocol, Activities: []string{"act"}, Caps: []*workerpb.Cap{bound},
			}})
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("the error is %v, want %s", err, says)
			}
		}
	})
}

// TestRefusalsOfAnAddressAreLimited: whatever an address comes up with, there are few lines about it.
func TestRefusalsOfAnAddressAreLimited(t *testing.T) {
	inBubble(t, nil, func(b *bubble) {
		for i := range 100 {
			err := b.lie("192.0.2.1:4000", "", &workerpb.FromWorker{Hello: &workerpb.Hello{Protocol: workerlink.Protocol, Activities: []string{fmt.Sprint("a@", i)}}})
			if err == nil || !strings.Contains(err.Error(), "has the character") {
				t.Fatalf("the error is %v", err)
			}
		}
		check.Equal(t, "lines", len(b.lines.with("worker refused", "192.0.2.1")), 20)
		b.pass(time.Second)
		_ = b.lie("192.0.2.1:4000", "", &workerpb.FromWorker{})
		_ = b.lie("192.0.2.2:4000", "", &workerpb.FromWorker{})
		check.Equal(t, "lines a second later", len(b.lines.with("worker refused", "192.0.2.1")), 21)
		check.Equal(t, "lines of another address", len(b.lines.with("worker refused", "192.0.2.2")), 1)
	})
}

// TestWorkerQuota: so many workers of a tenant may be connected as the quota says, and no more. A worker for all
// tenants does not count, and one that has left makes room.
func TestWorkerQuota(t *testing.T) {
	inBubble(t, nil, func(b *bubble) {
		guard, token := guarded(b)
		b.serve(func(c *workers.Config) { c.Auth, c.WorkerQuota = guard, 2 })
		acme, both, all := token(auth.Worker, "acme"), token(auth.Worker, "acme", "beta"), token(auth.Worker)
		connect := func(token string) *joined {
			b.Helper()
			return b.join(program{token: token}, wires{})
		}
		refused := func(token, tenant string) {
			b.Helper()
			err := b.lie("192.0.2.1:4000", token, &workerpb.FromWorker{Hello: &workerpb.Hello{Protocol: workerlink.Protocol}})
			want := "tenant " + tenant + " has 2 workers connected, which is its worker_quota"
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, want one that says %q", err, want)
			}
			if len(b.lines.with("worker refused", want)) == 0 {
				t.Errorf("the log does not say %q", want)
			}
		}
		first := connect(acme)
		connect(both).connected()
		refused(acme, "acme")
		refused(both, "acme")
		beta := token(auth.Worker, "beta")
		connect(beta).connected()
		refused(beta, "beta")
		for range 3 {
			connect(all).connected()
		}
		first.connected()
		first.gone()
		connect(acme).connected()
		refused(acme, "acme")
	})
}
