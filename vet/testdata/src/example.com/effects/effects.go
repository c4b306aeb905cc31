// Package effects has I/O in orchestration code.
package effects

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/ioutil"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/abidehq/abide"
)

var (
	Effects = abide.NewOrchestration("effects", effects)
	other   = abide.NewOrchestration[int, int]("other", nil)
)

func effects(ctx abide.Context, db *sql.DB) (string, error) {
	_, err := os.ReadFile("x")                    // want `os.ReadFile does I/O, which replay repeats: do it in an activity or in abide.Step \(in orchestration "effects"\)`
	var f *os.File                                // types are fine
	_, _ = f.Write(nil)                           // want `os.File.Write does I/O`
	_ = os.Stdout                                 // want `os.Stdout does I/O`
	_, _ = net.Dial("tcp", "x")                   // want `net.Dial does I/O`
	_, _ = http.Get("x")                          // want `http.Get does I/O`
	_, _ = http.DefaultClient.Do(nil)             // want `http.Client.Do does I/O`
	_, _ = db.Query("x")                          // want `sql.DB.Query does I/O`
	_ = exec.Command("x")                         // want `exec.Command does I/O`
	_, _ = ioutil.ReadFile("x")                   // want `ioutil.ReadFile does I/O`
	_ = syscall.Getpid()                          // want `syscall.Getpid does I/O`
	_, _ = filepath.Glob("*")                     // want `filepath.Glob does I/O`
	log.Printf("x")                               // want `log.Printf writes a log line on every replay: use abide.Logger\(ctx\)`
	log.Default().Print("x")                      // want `log.(Default|Logger.Print) writes a log line on every replay`
	slog.Info("x")                                // want `slog.Info writes a log line on every replay: use abide.Logger\(ctx\)`
	fmt.Println("x")                              // want `fmt.Println prints on every replay: use abide.Logger\(ctx\)`
	println("x")                                  // want `println prints on every replay: use abide.Logger\(ctx\)`
	_ = other.Start(context.Background(), nil, 1) // want `abide.Orchestration.Start does I/O`

	abide.Logger(ctx).Info("x", slog.String("k", "v"))
	_ = fmt.Sprintf("%d", 1)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%v", strings.ToUpper("x"))
	_, _ = url.Parse("x")
	_ = net.ParseIP("::1").String()
	_ = http.StatusText(http.StatusOK)
	h := http.Header{}
	h.Set("a", "b")
	_ = filepath.Join("a", "b")
	if errors.Is(err, os.ErrNotExist) || os.IsNotExist(err) || errors.Is(err, sql.ErrNoRows) {
		return "", err
	}
	_ = sql.NullString{String: "x"}
	return b.String(), nil
}
