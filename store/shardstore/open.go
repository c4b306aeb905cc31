package shardstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/abidehq/abide/store"
)

func init() {
	store.Register("shards", store.Scheme{Example: "shards:///etc/abide/shards", Open: openURL})
}

func openURL(ctx context.Context, u *url.URL) (store.Store, error) {
	path := u.Path
	if u.Opaque != "" {
		path = u.Opaque // shards:file, a relative path
	}
	if u.Host != "" || path == "" {
		return nil, store.InvalidURL(u, "name the file that lists the shards, as in shards:///etc/abide/shards")
	}
	s, err := Open(ctx, path, Options{})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Open opens the store over the shards that a file lists: a line for each, with its name, a space,
// and its URL. Empty lines, and those that begin with #, mean nothing. A shard that cannot be
// reached is opened later; at least one must be reachable, and all of them the first time.
//
// URLs have passwords, so the file should be readable by nobody else. Errors do not repeat them.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("shardstore: open the list of shards: %w: %w", err, store.ErrInvalid)
	}
	urls, err := parseList(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("shardstore: %s: %w", path, err)
	}
	var shards []*shard
	for _, line := range urls {
		shards = append(shards, &shard{name: line.name, open: func(ctx context.Context) (store.Store, error) { return store.Open(ctx, line.url) }})
	}
	return open(ctx, shards, o)
}

// shardLine is a line of the list of shards.
type shardLine struct{ name, url string }

// parseList reads the list of shards.
func parseList(r io.Reader) (lines []shardLine, err error) {
	scan := bufio.NewScanner(r)
	for n := 1; scan.Scan(); n++ {
		line := strings.TrimSpace(scan.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rawURL, ok := strings.Cut(line, " ")
		rawURL = strings.TrimSpace(rawURL)
		if !ok || rawURL == "" {
			return nil, fmt.Errorf("line %d: write a name, a space and a URL: %w", n, store.ErrInvalid)
		}
		if err := checkName(name); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if scheme, _, _ := strings.Cut(rawURL, ":"); scheme == "shards" {
			return nil, fmt.Errorf("line %d: a shard cannot be made of shards: %w", n, store.ErrInvalid)
		}
		lines = append(lines, shardLine{name, rawURL})
	}
	return lines, scan.Err()
}
