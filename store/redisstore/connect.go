package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/internal/backoff"
)

// option returns the options of a client. Its own cache and retries are off.
func (s *Store) option(addresses ...string) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: addresses, SelectDB: s.options.DB, TLSConfig: s.options.TLS,
		Username: s.options.Username, Password: s.options.Password,
		ClientName: "abide", DisableCache: true,
		// A script that may have run must not run again: eval decides what is retried.
		DisableRetry:  true,
		ClusterOption: rueidis.ClusterOption{MaxMovedRedirections: maxRedirects},
		// The largest commit blocks the server for seconds, and other calls must not time out.
		ConnWriteTimeout: 20 * time.Second,
		Dialer:           net.Dialer{Timeout: 10 * time.Second},
	}
}

// connect connects to the master. While a server loads its data, or none of several is the
// master, it tries again, up to retryTimeout.
func (s *Store) connect(ctx context.Context) (*connection, error) {
	pause := backoff.Pause{Clock: s.wall, Min: retryPause, Max: time.Second}
	for end := s.wall.Now().Add(retryTimeout); ; {
		c, again, err := s.findMaster(ctx)
		if err == nil {
			return c, nil
		}
		if !again || s.wall.Now().After(end) {
			return nil, fmt.Errorf("redisstore: open: %w", err)
		}
		if err := pause.Sleep(ctx); err != nil {
			return nil, err
		}
	}
}

// findMaster connects to the server that is the master. If several are, because one came
// back that had been replaced, it takes the one that was written to last. It reports whether
// a later attempt may succeed.
//
// With several addresses it does what a sentinel would do: it dials all of them. A former master that comes back and does not yet know that it was
// replaced calls itself a master; its state is older.
func (s *Store) findMaster(ctx context.Context) (found *connection, again bool, err error) {
	var errs []error
	latest := int64(-1)
	for _, address := range s.options.Addresses {
		c, at, err := s.dial(ctx, address)
		if err != nil {
			again = again || errorKind(err) == "LOADING" || len(s.options.Addresses) > 1 && errors.Is(err, errReplica)
			errs = append(errs, fmt.Errorf("%s: %w", address, err))
			continue
		}
		if c.cluster { // any of its nodes is as good as another
			return c, false, nil
		}
		if at <= latest {
			c.Close()
			continue
		}
		if found != nil {
			found.Close()
		}
		found, latest = c, at
	}
	if found == nil {
		return nil, again, errors.Join(errs...)
	}
	return found, false, nil
}

var errReplica = errors.New("it is a replica, and only the master can be written to")

// dial connects to a server, checks that it can serve, and returns when the store was last
// written to there. If the server is a node of a cluster, it connects to the cluster.
func (s *Store) dial(ctx context.Context, address string) (*connection, int64, error) {
	option := s.option(address)
	option.ForceSingleClient = true
	client, err := rueidis.NewClient(option)
	c := &connection{Client: client, address: address, left: make(chan struct{})}
	if err == nil {
		err = s.checkServer(ctx, c)
	}
	switch {
	case err != nil:
	case c.cluster:
		client.Close()
		if c.Client, err = rueidis.NewClient(s.option(s.options.Addresses...)); err == nil {
			err = s.checkNodes(ctx, c)
		}
	default:
		err = s.checkRole(ctx, c)
	}
	at := ""
	if err == nil {
		at, err = c.Do(ctx, c.B().Hget().Key(s.prefix+"meta").Field("state").Build()).ToString()
	}
	if err != nil && !rueidis.IsRedisNil(err) {
		if c.Client != nil {
			c.Close()
		}
		return nil, 0, err
	}
	state := reader{s: at} // empty for an empty store
	return c, state.int64(), nil
}

// checkRole returns errReplica unless a server is a master, or does not permit the question.
func (s *Store) checkRole(ctx context.Context, c *connection) error {
	role, err := c.Do(ctx, c.B().Role().Build()).ToArray()
	if err != nil || len(role) == 0 {
		if errorKind(err) == "NOPERM" {
			return nil
		}
		return err
	}
	if kind, err := role[0].ToString(); err != nil || kind != "master" {
		return errors.Join(errReplica, err)
	}
	return nil
}

// reconnect finds the master again, in the background, after a call over the connection
// failed: its server is gone, or is not the master any more. To a single server that is gone
// the client reconnects by itself. A connection that was already replaced is ignored: calls
// that failed because it was closed say nothing about its successor. Without that rule a
// call in flight during a failover closed the new connection too.
//
// One attempt runs at a time. Calls keep using the old connection meanwhile, and
// fail: they do not wait for a server that may not come back. When there is a
// new one, the subscription to hints moves over (left is closed), and all waiting calls
// are retried, since hints were lost.
//
// The client of a cluster follows its masters by itself.
func (s *Store) reconnect(failed *connection, readOnly bool) {
	if failed.cluster || !readOnly && len(s.options.Addresses) < 2 {
		return
	}
	if s.lifetime.Err() != nil || !s.reconnecting.CompareAndSwap(false, true) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.client.Load() != failed {
		s.reconnecting.Store(false)
		return
	}
	s.background.Go(func() {
		defer s.reconnecting.Store(false)
		pause := backoff.Pause{Clock: s.wall, Min: 10 * time.Millisecond, Max: time.Second}
		for s.lifetime.Err() == nil {
			c, _, err := s.findMaster(s.lifetime)
			if err == nil {
				old := s.client.Swap(c)
				close(old.left)
				s.retryAll()
				old.Close()
				return
			}
			if pause.Sleep(s.lifetime) != nil {
				return
			}
		}
	})
}
