package abidetest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/abidehq/abide"
)

// Record writes the histories of an instance into a folder, in JSON: that of its latest
// execution, and that of the one before if it is kept. It returns the files. An instance
// that has not begun has no history.
//
// The name of a file is made of the orchestration, its version, the tenant, the instance and
// the execution, so that the same history comes into the same file. What is in it is what
// the instance was given and returned: see that it may be kept.
func Record(ctx context.Context, c abide.Caller, ref abide.Ref, dir string) ([]string, error) {
	latest, err := c.AsClient().History(ctx, ref, 0)
	if err != nil {
		return nil, fmt.Errorf("abidetest: record %v: %w", ref, err)
	}
	histories := []abide.History{latest}
	if latest.Execution > 1 {
		before, err := c.AsClient().History(ctx, ref, latest.Execution-1)
		if err != nil && !errors.Is(err, abide.ErrNotFound) {
			return nil, fmt.Errorf("abidetest: record %v: %w", ref, err)
		}
		histories = append(histories, before)
	}
	var files []string
	for i := range histories {
		if len(histories[i].Events) == 0 {
			continue
		}
		file, err := write(&histories[i], dir)
		if err != nil {
			return files, fmt.Errorf("abidetest: record %v: %w", ref, err)
		}
		files = append(files, file)
	}
	return files, nil
}

// RecordAll records all instances that match a filter, and returns the files. Its Limit is
// how many instances are read at a time.
func RecordAll(ctx context.Context, c abide.Caller, filter abide.Filter, dir string) ([]string, error) {
	var files []string
	for info, err := range c.AsClient().All(ctx, filter) {
		if err != nil {
			return files, fmt.Errorf("abidetest: record: %w", err)
		}
		more, err := Record(ctx, c, info.Ref, dir)
		files = append(files, more...)
		if err != nil && !errors.Is(err, abide.ErrNotFound) { // it was deleted meanwhile
			return files, err
		}
	}
	return files, nil
}

func write(h *abide.History, dir string) (string, error) {
	data, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	file := filepath.Join(dir, fileName(h))
	return file, os.WriteFile(file, append(data, '\n'), 0o644)
}

// maxFileName bounds the name of a file, for file systems that do.
const maxFileName = 200

// fileName returns a name that says which history it is, and is that of no other.
func fileName(h *abide.History) string {
	parts := []string{routeOf(h.Orchestration, h.Version), h.Ref.ID, strconv.Itoa(h.Execution)}
	if h.Ref.Tenant != abide.DefaultTenant {
		parts = []string{parts[0], h.Ref.Tenant, parts[1], parts[2]}
	}
	for i := range parts {
		parts[i] = escape(parts[i])
	}
	name := strings.Join(parts, "~")
	if len(name) > maxFileName {
		sum := sha256.Sum256([]byte(name))
		name = fmt.Sprintf("%s~%x", name[:maxFileName], sum[:8])
	}
	return name + ".json"
}

// escape leaves what all file systems take as it is.
func escape(part string) string {
	var b strings.Builder
	for _, c := range []byte(part) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.@", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
