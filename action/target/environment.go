package target

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/abidehq/abide/action"
)

// own are the variables that say what a command runs for.
var own = []string{
	"ABIDE_ACTION_ID", "ABIDE_TENANT", "ABIDE_SLUG", "ABIDE_ATTEMPT", "ABIDE_TRIGGER", "ABIDE_SCHEDULE",
	"ABIDE_RUN_AT", "ABIDE_HEADERS",
}

// checkEnvironment shows no value: that may be secret.
func (cfg *CommandConfig) checkEnvironment() error {
	const field = "CommandConfig.Env"
	seen := map[string]bool{}
	for i, v := range cfg.Env {
		name, value, ok := strings.Cut(v, "=")
		switch {
		case !ok || name == "" || strings.Contains(v, "\x00"):
			return invalid(element(field, i), "is not allowed; it must look like NAME=VALUE, without zero bytes")
		case slices.Contains(own, name):
			return invalid(element(field, i), "sets %s, which is not the configuration's to set", name)
		case seen[name]:
			return invalid(element(field, i), "sets %s once more; once is allowed", name)
		case len(value) > maxVariable:
			return invalid(element(field, i), "has %d bytes; at most %d are allowed", len(value), maxVariable)
		}
		seen[name] = true
	}
	for i, name := range cfg.Inherit {
		if name == "" || strings.ContainsAny(name, "=\x00") || slices.Contains(own, name) {
			return invalid(element("CommandConfig.Inherit", i), "is %q; the name of a variable is allowed, other than those that say what the command runs for", name)
		}
	}
	return nil
}

// maxVariable is how long a variable can be: no system takes more than 128 KiB with its
// name.
const maxVariable = 120 << 10

// environment returns all that a command knows of where it runs.
func (c *Command) environment(a *action.Action) ([]string, error) {
	env := slices.Clone(c.cfg.Env)
	for _, name := range c.cfg.Inherit {
		set := slices.ContainsFunc(c.cfg.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if value, ok := os.LookupEnv(name); ok && !set {
			env = append(env, name+"="+value)
		}
	}
	runAt := ""
	if !a.RunAt.IsZero() {
		runAt = a.RunAt.Format(time.RFC3339Nano)
	}
	header := a.Trigger.Header
	if header == nil {
		header = map[string]string{}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // so that they can be read
	if err := e.Encode(header); err != nil {
		return nil, err
	}
	if b.Len() > maxVariable {
		return nil, fmt.Errorf("the headers of the webhook have %d bytes as JSON, at most %d are allowed: %w", b.Len(), maxVariable, action.ErrInvalid)
	}
	for i, value := range []string{
		a.ID, a.Tenant, a.Slug, strconv.Itoa(a.Attempt), string(a.Trigger.Kind), a.Schedule, runAt,
		strings.TrimSpace(b.String()),
	} {
		env = append(env, own[i]+"="+value)
	}
	return env, nil
}

// path returns where the program is, and checks that it and the directory are there.
func (c *Command) path() (string, error) {
	program, dir := c.cfg.Argv[0], c.cfg.Dir
	if dir != "" {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("the directory %s does not exist", dir)
		case err != nil:
			return "", fmt.Errorf("the directory: %w", err)
		case !info.IsDir():
			return "", fmt.Errorf("%s is not a directory", dir)
		}
		if strings.ContainsRune(program, os.PathSeparator) && !filepath.IsAbs(program) {
			program = filepath.Join(dir, program)
		}
	}
	path, err := exec.LookPath(program)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("there is no program %s in PATH", program)
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("the program %s does not exist", program)
	case errors.Is(err, syscall.EISDIR):
		return "", fmt.Errorf("%s is a directory, and not a program", program)
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("the program %s is not executable", program)
	case err != nil:
		return "", fmt.Errorf("the program: %w", err)
	}
	// A path that is relative would be taken as relative to the directory.
	return filepath.Abs(path)
}
