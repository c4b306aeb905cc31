//go:build unix

package firsthour

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
)

// patience is how long anything may take that must happen.
const patience = 20 * time.Second

// eventually waits until a condition holds, or ends the test.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came true that %s", what)
		}
	}
}

// process is a program that serves.
type process struct {
	programs
	t      *testing.T
	url    string // of Abide, without a slash at the end
	cmd    *exec.Cmd
	exited <-chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
}

// Write takes what the process prints.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(text)
}

// says returns what the process has printed.
func (p *process) says() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

var pageAddress = regexp.MustCompile(`page[= "':]+(http://[^\s"]+)/`)

// start starts a program, and returns when it answers. Pairs are of the environment.
func start(t *testing.T, built programs, program string, env []string, args ...string) *process {
	t.Helper()
	p := &process{programs: built, t: t, cmd: exec.Command(program, args...)}
	p.cmd.Env, p.cmd.Dir = append(environment(), env...), t.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = p, p
	var err error
	p.exited, err = testenv.Spawn(p.cmd)
	check.OK(t, err)
	t.Cleanup(func() {
		p.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("%s %v said:\n%s", filepath.Base(program), args, p.says())
		}
	})
	eventually(t, "the program serves", func() bool {
		select {
		case <-p.exited:
			t.Fatalf("the program ended:\n%s", p.says())
		default:
		}
		found := pageAddress.FindStringSubmatch(p.says())
		if found == nil {
			return false
		}
		p.url = found[1]
		answer, err := http.Get(p.url + "/healthz")
		if err != nil {
			return false
		}
		return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
	return p
}

// environment is ours, without what configures Abide.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ABIDE_") {
			env = append(env, v)
		}
	}
	return env
}

// serveSaas starts the service on a store.
func serveSaas(t *testing.T, built programs, store string, env ...string) *process {
	t.Helper()
	return start(t, built, built.saas, append(env, "ABIDE_STORE="+store), "serve", "127.0.0.1:0")
}

// end ends the process by a signal, and waits until it is gone.
func (p *process) end(by syscall.Signal) {
	_ = p.cmd.Process.Signal(by) // one that has ended needs no signal
	<-p.exited
}

// on returns the same process for another test.
func (p *process) on(t *testing.T) *process {
	return &process{programs: p.programs, t: t, url: p.url, cmd: p.cmd, exited: p.exited}
}

// told is what a command has printed.
type told struct {
	out, err string
	code     int
}

// command runs a program to its end.
func command(t *testing.T, program string, env []string, args ...string) told {
	t.Helper()
	cmd := exec.Command(program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env, cmd.Dir = append(environment(), env...), t.TempDir()
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return told{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// cli runs a command of abide against the process.
func (p *process) cli(args ...string) told {
	p.t.Helper()
	return command(p.t, p.abide, []string{"ABIDE_SERVER=" + p.url}, args...)
}

// ok runs a command of abide that must succeed, and returns what it prints.
func (p *process) ok(args ...string) string {
	p.t.Helper()
	got := p.cli(args...)
	if got.code != 0 {
		p.t.Fatalf("abide %v: exit code %d\n%s%s", args, got.code, got.out, got.err)
	}
	return got.out
}

// answered is an answer over HTTP.
type answered struct {
	status int
	body   string
}

// call makes a request; data that is not empty is JSON.
func (p *process) call(method, path, data string, header ...string) answered {
	p.t.Helper()
	request, err := http.NewRequest(method, p.url+path, strings.NewReader(data))
	check.OK(p.t, err)
	if data != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(request)
	check.OK(p.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	check.OK(p.t, err)
	return answered{answer.StatusCode, string(body)}
}

func (p *process) get(path string) answered { p.t.Helper(); return p.call(http.MethodGet, path, "") }
func (p *process) post(path, data string) answered {
	p.t.Helper()
	return p.call(http.MethodPost, path, data)
}

// instance is the path of an instance of the default tenant.
func instance(id string) string {
	return "/api/v1/instances/default/" + strings.ReplaceAll(id, "/", "%2F")
}

// until waits until an instance has one of the statuses, and returns it as JSON.
func (p *process) until(id string, statuses ...string) string {
	p.t.Helper()
	var last answered
	eventually(p.t, id+" is "+strings.Join(statuses, " or "), func() bool {
		last = p.get(instance(id))
		for _, s := range statuses {
			if strings.Contains(last.body, `"status":"`+s+`"`) {
				return true
			}
		}
		return false
	})
	return last.body
}

// start starts an instance, and waits until it has one of the statuses.
func (p *process) startInstance(orchestration, id, input string, statuses ...string) {
	p.t.Helper()
	body := `{"orchestration":"` + orchestration + `","id":"` + id + `"`
	if input != "" {
		body += `,"input":` + input
	}
	if got := p.post("/api/v1/instances", body+"}"); got.status/100 != 2 {
		p.t.Fatalf("start %s: %d %s", id, got.status, got.body)
	}
	if len(statuses) > 0 {
		p.until(id, statuses...)
	}
}

// has fails the test for each part that a text lacks.
func has(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}

// lacks fails the test for each part that a text should not have.
func lacks(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%s has %q:\n%s", what, part, text)
		}
	}
}
