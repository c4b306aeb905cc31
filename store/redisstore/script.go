package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how a server names a script
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/store"
)

//go:embed lua/*.lua
var sources embed.FS

// script is a program that runs on the server, alone and as a whole.
type script struct {
	verb string
	text string
	sha  string

	// timed: it begins with who calls it and what time it is.
	timed bool

	// reads: it changes nothing, so it may run again when its answer was lost.
	reads bool
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
	claimScript      = newScript("claim", true, false, "head", "time", "key", "hint", "claimkey", "partitions", "claim")
	renewScript      = newScript("renew", true, false, "head", "time", "key", "renew")
	releaseScript    = newScript("release", true, false, "head", "time", "key", "hint", "release")
	quarantineScript = newScript("claim", true, false, "head", "time", "key", "record", "hint", "quarantine")
	statsScript      = newScript("stats", true, true, "head", "time", "stats")
	pendingScript    = newScript("pending", false, true, "head", "pending")
	readLogScript    = newScript("read log", false, true, "head", "readlog")
	listScript       = newScript("list", false, true, "head", "list")
	countScript      = newScript("count", false, true, "head", "count")
)

// args are the arguments of a script, one by one.
type args []string

func (a *args) add(texts ...string) { *a = append(*a, texts...) }
func (a *args) num(n int64)         { *a = append(*a, itoa(n)) }
func (a *args) len(n int)           { *a = append(*a, itoa(int64(n))) }
func (a *args) yesNo(set bool)      { *a = append(*a, yesNo(set)) }

// patience is how long a call waits for a server that is reading its data, or is busy with
// a script of somebody else, and pauseLoading how long before it asks again. Such a server
// has done nothing.
const (
	patience     = 30 * time.Second
	pauseLoading = 20 * time.Millisecond
)

// tries counts how often a script was sent, and waits in between until there is no patience left.
type tries struct {
	made  int
	pause backoff.Pause
	end   time.Time
}

func (s *Store) newTries() *tries {
	return &tries{pause: backoff.Pause{Clock: s.wall, Min: pauseLoading, Max: pauseLoading}, end: s.wall.Now().Add(patience)}
}

// eval runs a script and returns what it answers. A script that the server does not know,
// because it was restarted, is sent as a whole. One that may have run is never run again
// unless it only reads.
//
// What can go wrong, and what is done:
//
//	NOSCRIPT             it has not run: load it, and run it
//	LOADING, BUSY        it has not run: wait, as long as there is patience
//	OOM                  it has not run: ErrFull
//	READONLY, MASTERDOWN it has not run: look for the master, and return the error
//	no answer            it may have run: again only if it only reads; else the
//	                     error, and the outcome is unknown
func (s *Store) eval(ctx context.Context, sc *script, a args) (rueidis.RedisMessage, error) {
	if sc.timed {
		a = append(args{s.me, s.clockArg()}, a...)
	}
	tries := s.newTries()
	for {
		c := s.client.Load()
		m, err := c.Do(ctx, c.B().Evalsha().Sha1(sc.sha).Numkeys(1).Key(s.prefix).Arg(a...).Build()).ToMessage()
		if err == nil {
			return m, inUse(sc.verb, m)
		}
		if again, err := s.again(ctx, c, sc, err, tries); !again {
			return m, err
		}
	}
}

// again reports whether a script that failed with err has not run, or only reads, and can
// be run again; otherwise it returns the error of the call. It loads a script that the
// server does not know, and pauses for one that is not ready.
func (s *Store) again(ctx context.Context, c *connection, sc *script, err error, t *tries) (bool, error) {
	t.made++
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	switch kind := errorKind(err); {
	case kind == "NOSCRIPT" && t.made < backoff.Tries:
		if err = c.Do(ctx, c.B().ScriptLoad().Script(sc.text).Build()).Error(); err == nil {
			return true, nil
		}
	case (kind == "LOADING" || kind == "BUSY") && s.wall.Now().Before(t.end):
		if err := t.pause.Sleep(ctx); err != nil {
			return false, err
		}
		return true, nil
	case kind == "" && sc.reads && t.made < 3:
		return true, nil
	}
	return false, s.failed(c, sc.verb, err)
}

// errorKind is the first word of what a server says is wrong, and empty for an error that
// is not a server's: then nobody knows what became of the call.
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

// failed returns the error of a call over a connection, and replaces the connection if it is of no use.
func (s *Store) failed(c *connection, verb string, err error) error {
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

// inUse returns the error of a call to a store that is kept for somebody else.
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

// answer reads what a script answers. The first thing that is not as it should be is
// noted, and the rest reads as empty.
//
// It is read from left to right, as the script has written it; so a reader is a
// list of calls without checks, and one check at the end.
type answer struct {
	list []rueidis.RedisMessage
	err  error
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

// sub is an answer within the answer.
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

// evalWait is eval, and waits for replicas on the same connection.
//
// WAIT counts the replicas that have everything written on its connection, so
// both commands go on one connection, as one pipeline. If too few replicas have
// it in time, the commit is done on the master and is reported as an error: it
// may be undone by a failover.
func (s *Store) evalWait(ctx context.Context, sc *script, a args) (rueidis.RedisMessage, error) {
	a = append(args{s.me, s.clockArg()}, a...)
	tries := s.newTries()
	for {
		c := s.client.Load()
		answers := c.DoMulti(ctx,
			c.B().Evalsha().Sha1(sc.sha).Numkeys(1).Key(s.prefix).Arg(a...).Build(),
			c.B().Wait().Numreplicas(s.replicas.Load()).Timeout(s.waitReplicas.Milliseconds()).Build())
		m, err := answers[0].ToMessage()
		if err != nil {
			if again, err := s.again(ctx, c, sc, err, tries); !again {
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
