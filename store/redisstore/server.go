package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/abidehq/abide/store"
)

// checkServer checks that a server can do what the store needs, and is as durable as it
// was asked to be.
func (s *Store) checkServer(ctx context.Context, c *connection) error {
	info, err := readInfo(ctx, c)
	if err != nil {
		return err
	}
	if v := info["redis_version"]; !atLeast(v, 6, 2) {
		return fmt.Errorf("the server is version %s, and 6.2 is the least that has the commands which are needed: %w", v, store.ErrInvalid)
	}
	if c.cluster = info["cluster_enabled"] == "1"; c.cluster && s.options.DB != 0 {
		return fmt.Errorf("database %d: a cluster has database 0 alone: %w", s.options.DB, store.ErrInvalid)
	}
	return s.checkSettings(ctx, c, info)
}

// checkNodes checks the settings of all nodes of a cluster that can be reached: a replica may
// become a master at any time.
func (s *Store) checkNodes(ctx context.Context, c *connection) error {
	for address, node := range c.Nodes() {
		n := &connection{Client: node, address: address}
		info, err := readInfo(ctx, n)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue // a cluster may have nodes that are down
		}
		if err := s.checkSettings(ctx, n, info); err != nil {
			return fmt.Errorf("%s: %w", address, err)
		}
	}
	return nil
}

// readInfo returns the fields of INFO.
func readInfo(ctx context.Context, c *connection) (map[string]string, error) {
	text, err := c.Do(ctx, c.B().Info().Build()).ToString()
	if err != nil {
		return nil, err
	}
	info := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info, nil
}

// inspect checks what may change while the server runs, its clock and its settings, and logs
// a change for the worse, once. Commits continue: an operator decides what to do.
//
// It runs with the heartbeat of the process. Settings can be changed by CONFIG SET
// at any time, and a replica that is promoted has settings of its own.
func (s *Store) inspect(ctx context.Context) {
	s.noteClock(ctx)
	err := s.checkAgain(ctx)
	switch unfit := errors.Is(err, store.ErrInvalid); {
	case err != nil && !unfit: // the server was not reached
	case unfit && s.unfit.CompareAndSwap(false, true):
		s.logger.Error("redisstore: server settings no longer durable", "error", err)
	case !unfit && s.unfit.CompareAndSwap(true, false):
		s.logger.Info("redisstore: server settings durable again")
	}
}

// checkAgain checks the settings of the server, or of the nodes of a cluster.
func (s *Store) checkAgain(ctx context.Context) error {
	c := s.client.Load()
	if c.cluster {
		return s.checkNodes(ctx, c)
	}
	info, err := readInfo(ctx, c)
	if err != nil {
		return err
	}
	return s.checkSettings(ctx, c, info)
}

// checkSettings returns an error that matches store.ErrInvalid if the server may lose what it
// has acknowledged.
//
// Eviction is checked whatever the durability: a server that throws away single
// keys under memory pressure breaks the store rather than losing its tail.
func (s *Store) checkSettings(ctx context.Context, c *connection, info map[string]string) error {
	config, err := c.Do(ctx, c.B().ConfigGet().Parameter("append*", "no-appendfsync-on-rewrite", "maxmemory*").Build()).AsStrMap()
	if err != nil {
		config = map[string]string{"maxmemory": info["maxmemory"], "maxmemory-policy": info["maxmemory_policy"]}
		if info["aof_enabled"] == "0" {
			config["appendonly"] = "no"
		}
	}
	if policy := config["maxmemory-policy"]; config["maxmemory"] != "0" && strings.HasPrefix(policy, "allkeys") {
		return fmt.Errorf("maxmemory-policy is %s, so the server throws away any key when memory is short, and the store would lose parts of what it holds: set it to noeviction: %w", policy, store.ErrInvalid)
	}
	if s.options.Durability == Relaxed {
		return nil
	}
	return checkDurability(config, s.options.Durability)
}

// checkDurability returns [store.ErrInvalid], with the setting and the remedy, unless a server
// with this configuration has a write on disk before it answers.
func checkDurability(config map[string]string, d Durability) error {
	const how = "or open the store with durability=relaxed, and lose in a crash what docs/redis.md says"
	switch fsync := config["appendfsync"]; {
	case config["appendonly"] == "no":
		return fmt.Errorf("appendonly is no, so the server keeps everything in memory, and a restart loses what was acknowledged: set appendonly yes and appendfsync always, %s: %w", how, store.ErrInvalid)
	case fsync == "" && d == Trusted:
		return nil
	case fsync == "":
		return fmt.Errorf("the server does not reveal its configuration, so it is unknown whether it syncs each write: open the store with durability=trusted if it does (appendfsync always), %s: %w", how, store.ErrInvalid)
	case fsync != "always":
		return fmt.Errorf("appendfsync is %s, so the server answers before a write is on disk, and a crash of its machine loses the last second or more of what was acknowledged: set appendfsync always, %s: %w", fsync, how, store.ErrInvalid)
	case config["no-appendfsync-on-rewrite"] == "yes":
		return fmt.Errorf("no-appendfsync-on-rewrite is yes, so the server does not sync while it rewrites its file: set it to no, %s: %w", how, store.ErrInvalid)
	}
	return nil
}

// atLeast reports whether a version like 7.0.15 is at least major.minor.
func atLeast(version string, major, minor int) bool {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(first)
	if err != nil {
		return false
	}
	b, _ := strconv.Atoi(second) // a version without a second part is .0
	return a > major || a == major && b >= minor
}
