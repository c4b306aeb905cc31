package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how a server names a script
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/store"
)

//go:embed lua/*.lua
var sources embed.FS

// script is a Lua program, which the server runs alone and as a whole.
//
// It is a concatenation of files of lua/, each of which defines functions for those that
// follow. Scripts are cut to what they need, because the server runs the definitions
// with every call: a commit without reservations leaves out what claims need.
type script struct {
	verb string // for errors
	text string
	sha  string // by which the server names it

	// timed: its first arguments are openID and the time, for time.lua, which also refuses
	// the call if another process holds the store exclusively.
	timed bool

	// reads: it changes nothing, so it may run again when its answer was lost.
	reads bool

	// impatient: it does not wait for one of several segments that is not served at the moment,
	// because its call is about others too.
	impatient bool
}

// makeImpatient marks a script of claims and renewals.
func (sc *script) makeImpatient() *script {
	sc.impatient = true
	return sc
}

func newScript(verb string, timed, reads bool, files ...string) *script {
	var text strings.Builder
	for _, file := range files {
		b, err := sources.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic(err) // it is part of the program
		}
		text.Write(b)
	}
	sum := sha1.Sum([]byte(text.String())) //nolint:gosec // it is how a server names a script
	return &script{verb: verb, text: text.String(), sha: hex.EncodeToString(sum[:]), timed: timed, reads: reads}
}

var (
	commitScript     = newScript("commit", true, false, "head", "time", "key", "record", "hint", "commit", "plain", "committed")
	handOverScript   = newScript("commit", true, false, "head", "time", "key", "record", "hint", "claimkey", "partitions", "commit", "handover", "committed")
	claimScript      = newScript("claim", true, false, "head", "time", "key", "hint", "claimkey", "partitions", "claim").makeImpatient()
	peekScript       = newScript("claim", true, true, "head", "time", "peek").makeImpatient()
	renewScript      = newScript("renew", true, false, "head", "time", "key", "renew").makeImpatient()
	releaseScript    = newScript("release", true, false, "head", "time", "key", "hint", "release")
	quarantineScript = newScript("claim", true, false, "head", "time", "key", "record", "hint", "quarantine")
	statsScript      = newScript("stats", true, true, "head", "time", "stats")
	leasesScript     = newScript("leases", true, true, "head", "time", "leases")
	pendingScript    = newScript("pending", false, true, "head", "pending")
	readLogScript    = newScript("read log", false, true, "head", "readlog")
	listScript       = newScript("list", false, true, "head", "list")
	countScript      = newScript("count", false, true, "head", "count")
)

// args are the arguments of a script, as texts, in the order in which it reads them.
type args []string

func (a *args) add(texts ...string) { *a = append(*a, texts...) }
func (a *args) num(n int64)         { *a = append(*a, itoa(n)) }
func (a *args) len(n int)           { *a = append(*a, itoa(int64(n))) }
func (a *args) yesNo(set bool)      { *a = append(*a, yesNo(set)) }

// retryTimeout is how long a call waits for a server that is loading its data, or is busy with
// a script of another client, or for a cluster that does not serve a slot at the moment, and
// retryPause how long it pauses before it sends the script again. The script has not run.
const (
	retryTimeout = 30 * time.Second
	retryPause   = 20 * time.Millisecond
)

// tries is the retry state of one call of a script.
type tries struct {
	made  int // how often the script was sent
	pause backoff.Pause
	end   time.Time // when retryTimeout is over
	whole bool      // the text of the script is sent, and not its hash
	moves int       // how often it was sent to another node
}

// command returns the command that runs a script on a segment. In a cluster it names two keys
// that never exist. While the slot is being moved, the server that has it then answers ASK, and
// the one that gets it TRYAGAIN: a script never runs where a part of its keys is missing.
func (c *connection) command(seg *segment, sc *script, a args, whole bool) rueidis.Completed {
	switch {
	case whole && c.cluster:
		return c.B().Eval().Script(sc.text).Numkeys(2).Key(seg.prefix, seg.prefix+"slot").Arg(a...).Build()
	case c.cluster:
		return c.B().Evalsha().Sha1(sc.sha).Numkeys(2).Key(seg.prefix, seg.prefix+"slot").Arg(a...).Build()
	}
	return c.B().Evalsha().Sha1(sc.sha).Numkeys(1).Key(seg.prefix).Arg(a...).Build()
}

func (s *Store) newTries() *tries {
	return &tries{pause: backoff.Pause{Clock: s.wall, Min: retryPause, Max: retryPause}, end: s.wall.Now().Add(retryTimeout)}
}

// eval runs a script and returns its answer. A script that the server does not have,
// because it was restarted, is loaded first. A script that may have run is never run again
// unless it only reads: the second run of a commit would mostly be refused because of the
// first, and its caller would get a conflict for a commit that has succeeded.
//
// What can go wrong, and what is done:
//
//	NOSCRIPT             it has not run: load it, and run it
//	LOADING, BUSY        it has not run: wait, up to retryTimeout
//	OOM                  it has not run: ErrFull
//	READONLY, MASTERDOWN it has not run: find the master, and return the error
//	MOVED, ASK           it has not run: the client follows, a few times; then wait,
//	                     up to retryTimeout
//	TRYAGAIN,            it has not run, because the slot is being moved, or its master
//	CLUSTERDOWN          has failed and has no successor yet: wait, up to retryTimeout
//	connection refused,  it has not run: the same
//	in a cluster
//	no answer            it may have run: again only if it only reads; else the
//	                     error, and the outcome is unknown
//
// Claims and renewals do not wait for one of several segments: see acrossClaim and Renew.
func (s *Store) eval(ctx context.Context, seg *segment, sc *script, a args) (rueidis.RedisMessage, error) {
	if sc.timed {
		a = append(args{s.openID, s.clockArg()}, a...)
	}
	tries := s.newTries()
	for {
		c := s.client.Load()
		m, err := c.Do(ctx, c.command(seg, sc, a, tries.whole)).ToMessage()
		if err == nil {
			return m, inUse(sc.verb, m)
		}
		if again, err := s.retryable(ctx, c, sc, err, tries); !again {
			return m, err
		}
	}
}

// again reports whether a script that failed with err has not run, or only reads, and can
// be run again; otherwise it returns the error of the call. It loads a script that the
// server does not know, and pauses for one that is not ready.
func (s *Store) retryable(ctx context.Context, c *connection, sc *script, err error, t *tries) (bool, error) {
	t.made++
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	switch kind := errorKind(err); {
	case kind == "NOSCRIPT" && c.cluster && !t.whole:
		t.whole = true // a command that loads it would have no key to find the server by
		return true, nil
	case kind == "NOSCRIPT" && t.made < backoff.Tries:
		if err = c.Do(ctx, c.B().ScriptLoad().Script(sc.text).Build()).Error(); err == nil {
			return true, nil
		}
	case notRun(c, err) && (kind == "LOADING" || kind == "BUSY" || !sc.impatient || !s.several()) && s.wall.Now().Before(t.end):
		if err := t.pause.Sleep(ctx); err != nil {
			return false, err
		}
		return true, nil
	case kind == "" && sc.reads && t.made < 3:
		return true, nil
	}
	return false, s.callError(c, sc.verb, err)
}

// notRun reports whether a script that failed with err has certainly not run, and may succeed
// if it is sent again after a while.
func notRun(c *connection, err error) bool {
	switch errorKind(err) {
	case "LOADING", "BUSY":
		return true
	case "TRYAGAIN", "CLUSTERDOWN", "MOVED", "ASK":
		return c.cluster
	}
	return c.cluster && errors.Is(err, syscall.ECONNREFUSED)
}

// errorKind is the first word of what a server says is wrong, and empty for an error that
// is not a server's: then the outcome of the call is unknown.
func errorKind(err error) string {
	var refused *rueidis.RedisError
	if !errors.As(err, &refused) {
		return ""
	}
	kind, rest, _ := strings.Cut(refused.Error(), " ")
	if kind == "ERR" { // before version 7 the word is within
		for _, word := range []string{"OOM", "READONLY", "MASTERDOWN"} {
			if strings.Contains(rest, "-"+word+" ") {
				return word
			}
		}
	}
	return kind
}

// callError returns the error of a call over a connection, and replaces the connection if it
// is lost, or leads to a server that is no longer the master.
func (s *Store) callError(c *connection, verb string, err error) error {
	switch errorKind(err) {
	case "OOM":
		return fmt.Errorf("redisstore: %s: the server is at its memory limit (maxmemory): %w: %w", verb, err, store.ErrFull)
	case "READONLY", "MASTERDOWN":
		s.reconnect(c, true)
	case "":
		s.reconnect(c, false)
	}
	return fmt.Errorf("redisstore: %s: %w", verb, err)
}

// inUse returns [store.ErrInUse] if the script was refused because another process holds the
// store exclusively: see Exclude.
func inUse(verb string, m rueidis.RedisMessage) error {
	answer, err := m.ToArray()
	if err != nil || len(answer) != 1 {
		return nil //nolint:nilerr // other answers are for others to read
	}
	if text, err := answer[0].ToString(); err == nil && text == "in use" {
		return fmt.Errorf("redisstore: %s: another process keeps the store for itself: %w", verb, store.ErrInUse)
	}
	return nil
}

// answer decodes the answer of a script, from left to right. The first error is kept, and
// the rest reads as empty; so decoding is a list of calls without checks, and one check of
// err at the end. A caller that must not act on half an answer checks before it acts.
type answer struct {
	list []rueidis.RedisMessage // what is left
	err  error                  // the first error
}

func read(m rueidis.RedisMessage) *answer {
	list, err := m.ToArray()
	return &answer{list: list, err: err}
}

func (a *answer) next() (m rueidis.RedisMessage) {
	if len(a.list) == 0 {
		if a.err == nil {
			a.err = errShort
		}
		return m
	}
	m, a.list = a.list[0], a.list[1:]
	return m
}

var errShort = errors.New("redisstore: the answer of a script is too short")

func (a *answer) text() string {
	m := a.next()
	if a.err != nil {
		return ""
	}
	text, err := m.ToString()
	a.note(err)
	return text
}

func (a *answer) num() int64 {
	m := a.next()
	if a.err != nil {
		return 0
	}
	n, err := m.AsInt64()
	a.note(err)
	return n
}

// sub returns the next element, which is a list. Its errors are its own, except that it is
// no list: a caller that reads more than whether it is empty notes them.
func (a *answer) sub() *answer {
	m := a.next()
	if a.err != nil {
		return &answer{err: a.err}
	}
	inner := read(m)
	a.note(inner.err)
	return inner
}

func (a *answer) note(err error) {
	if err != nil && a.err == nil {
		a.err = err
	}
}

func (a *answer) more() bool { return a.err == nil && len(a.list) > 0 }

// evalWait runs a script that writes, and waits for replicas.
//
// WAIT counts the replicas that have everything written on its connection, so
// both commands go on one connection, as one pipeline. If too few replicas have
// it in time, the commit is applied on the master and is reported as an error: it
// may be undone by a failover, so its outcome is unknown.
//
// In a cluster the client would follow a MOVED with the script alone, and WAIT would have
// asked the former master. So the pipeline goes to a certain node, and follows as a whole.
func (s *Store) evalWait(ctx context.Context, seg *segment, sc *script, a args) (rueidis.RedisMessage, error) {
	a = append(args{s.openID, s.clockArg()}, a...)
	tries := s.newTries()
	for {
		c := s.client.Load()
		node := c.nodeOf(seg)
		answers := node.DoMulti(ctx,
			c.command(seg, sc, a, tries.whole),
			c.B().Wait().Numreplicas(s.replicas.Load()).Timeout(s.waitReplicas.Milliseconds()).Build())
		m, err := answers[0].ToMessage()
		if err != nil {
			if c.cluster && c.redirected(seg, err, tries) {
				continue
			}
			if again, err := s.retryable(ctx, c, sc, err, tries); !again {
				return m, err
			}
			continue
		}
		if err := inUse(sc.verb, m); err != nil {
			return m, err
		}
		n, err := answers[1].AsInt64()
		if err == nil && n < s.replicas.Load() {
			err = fmt.Errorf("%d of %d replicas have it after %v", n, s.replicas.Load(), s.waitReplicas)
		}
		if err != nil {
			return m, fmt.Errorf("redisstore: %s: it is done, and may be undone by a failover: %w", sc.verb, err)
		}
		return m, nil
	}
}

// nodeOf returns the client of the node that served a segment last, or of any other if that
// is not known: that one answers MOVED with the address.
func (c *connection) nodeOf(seg *segment) rueidis.Client {
	if !c.cluster {
		return c.Client
	}
	nodes := c.Nodes()
	if known := seg.master.Load(); known != nil {
		if node := nodes[*known]; node != nil {
			return node
		}
	}
	for _, node := range nodes { // in no order
		return node
	}
	return c.Client
}

// maxRedirects is how often a call follows to another node before it pauses.
const maxRedirects = 5

// redirected notes the master of a segment that an answer names, and reports whether the call
// is to be sent to it at once. After an error that is not an answer the master is not known.
func (c *connection) redirected(seg *segment, err error, t *tries) bool {
	refused, ok := rueidis.IsRedisErr(err)
	if !ok {
		seg.master.Store(nil)
		return false
	}
	address, moved := refused.IsMoved()
	if !moved {
		return false
	}
	address = strings.Clone(address) // it is part of the answer
	seg.master.Store(&address)
	t.moves++
	return t.moves%maxRedirects != 0 && c.Nodes()[address] != nil
}
