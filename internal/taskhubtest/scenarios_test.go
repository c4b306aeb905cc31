//go:build unix

package taskhubtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// The least number of scenarios, and of those that run while the server is killed.
const (
	leastScenarios = 90
	leastKilled    = 35
)

// limit is how long the scenarios may take.
const limit = 4 * time.Minute

// result is what the runner prints for a scenario.
type result struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Error string `json:"error"`
	Ms    int    `json:"ms"`
}

func TestScenarios(t *testing.T) {
	js := installed(t)
	abide := build(t)
	t.Run("pebble", func(t *testing.T) {
		t.Parallel()
		s := serve(t, abide, "pebble://"+filepath.Join(t.TempDir(), "data"))
		report(t, js.run(t, s.addr, nil), leastScenarios)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		s := serve(t, abide, testenv.SharedPostgres(t).Database(t))
		report(t, js.run(t, s.addr, nil), leastScenarios)
	})
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		s := serve(t, abide, "pebble://"+filepath.Join(t.TempDir(), "data"))
		stop := func() int { return 0 }
		results := js.run(t, s.addr, func() { stop = s.killOften(t) }, "--kills")
		if kills := stop(); kills < 3 {
			t.Errorf("the server was killed %d times, at least 3 are wanted", kills)
		}
		report(t, results, leastKilled)
	})
}

// report makes each result a test of its own.
func report(t *testing.T, results []result, least int) {
	t.Helper()
	if len(results) < least {
		t.Errorf("%d scenarios were run, at least %d are wanted", len(results), least)
	}
	for _, r := range results {
		t.Run(r.Name, func(t *testing.T) {
			if !r.OK {
				t.Errorf("after %d ms: %s", r.Ms, r.Error)
			}
		})
	}
}

// javascript is where Node and the SDK are installed.
type javascript struct{ node, packages string }

// installed returns Node and the SDK. A machine without them fails the test.
func installed(t *testing.T) javascript {
	t.Helper()
	packages, err := filepath.Abs(filepath.Join("..", "..", ".bin", "javascript", "node_modules"))
	check.OK(t, err)
	js := javascript{node: filepath.Join(packages, "node", "bin", "node"), packages: packages}
	for _, path := range []string{js.node, filepath.Join(packages, "@microsoft", "durabletask-js")} {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("Node or the SDK is missing: make javascript (%v)", err)
		}
	}
	return js
}

// run runs the scenarios against a server, and returns their results. It calls first, if that is not nil, with the
// first of them.
func (js javascript) run(t *testing.T, addr string, first func(), args ...string) (results []result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, js.node, append([]string{"runner.js", addr}, args...)...)
	cmd.Dir, cmd.Env = "testdata", append(os.Environ(), "NODE_PATH="+js.packages, "NO_COLOR=1")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	check.OK(t, err)
	check.OK(t, cmd.Start())
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Errorf("runner.js printed %q", lines.Text())
			continue
		}
		if results = append(results, r); len(results) == 1 && first != nil {
			first()
		}
	}
	if err := errors.Join(lines.Err(), cmd.Wait()); err != nil {
		t.Errorf("runner.js: %v\n%s", err, errs.String())
	}
	return results
}

// killOften kills the server and starts it again until stop is called, which returns how often that was. A worker
// of the SDK waits for a second before it connects again: it gets some time to work after that.
func (s *server) killOften(t *testing.T) (stop func() (kills int)) {
	random := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	ended, done := make(chan struct{}), make(chan int)
	go func() {
		for kills := 0; ; kills++ {
			uptime := 1200*time.Millisecond + time.Duration(random.IntN(1500))*time.Millisecond
			select {
			case <-time.After(uptime):
				s.kill()
				s.start()
			case <-ended:
				done <- kills
				return
			}
		}
	}()
	return func() int {
		close(ended)
		return <-done
	}
}
