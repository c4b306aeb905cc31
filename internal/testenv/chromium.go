//go:build unix

package testenv

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// chromiumPrograms are the names under which systems have the browser.
var chromiumPrograms = []string{"chromium", "chromium-browser", "google-chrome"}

// Chromium starts a browser without a window, with nothing kept and nothing sent
// anywhere, and returns the address under which a test drives it, a WebSocket's. It ends
// with the test. A machine without chromium fails the test: a page that no browser has
// seen is not tested.
func Chromium(t testing.TB) string {
	t.Helper()
	program := ""
	for _, name := range chromiumPrograms {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Fatal("chromium is missing: apt-get install chromium, or make servers")
	}
	folder := t.TempDir()
	process := exec.Command(program,
		"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions", "--disable-dev-shm-usage",
		"--disable-breakpad", "--disable-client-side-phishing-detection", "--metrics-recording-only", "--no-default-browser-check",
		"--password-store=basic", "--use-mock-keychain", "--hide-scrollbars", "--mute-audio", "--lang=en-US",
		"--remote-debugging-port=0", "--user-data-dir="+folder, "about:blank")
	errors, err := process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	started, exited := make(chan error), make(chan struct{})
	go func() {
		// What dies with us dies with the thread that started it, so that one stays.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it has processes of its own
		dieWithUs(process, syscall.SIGKILL)
		err := process.Start()
		started <- err
		if err == nil {
			<-exited
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	address := make(chan string, 1)
	go func() {
		defer close(address)
		const says = "DevTools listening on "
		for lines := bufio.NewScanner(errors); lines.Scan(); {
			if at, found := strings.CutPrefix(lines.Text(), says); found {
				address <- at
				break
			}
		}
		_, _ = io.Copy(io.Discard, errors) // so that it never blocks on a full pipe
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-process.Process.Pid, syscall.SIGKILL) // one that has ended needs no signal
		_ = process.Wait()                                      // how it ended is what we did to it
		close(exited)
		// Its processes end one after another, and the last ones may still write.
		if !waitFor(func() bool { return os.RemoveAll(folder) == nil }) {
			t.Errorf("chromium leaves %s behind", folder)
		}
	})
	var at string
	if !waitFor(func() bool {
		select {
		case at = <-address:
			return true
		default:
			return false
		}
	}) || at == "" {
		t.Fatal("chromium does not say where it listens")
	}
	return at
}
