package timers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/timer"
)

// importAll reads timers, and returns the batches that would be scheduled.
func importAll(t *testing.T, format, text string) (batches [][]timer.Request, err error) {
	t.Helper()
	i := &timersImport{format: format}
	i.Tenant = "acme"
	lines, err := i.Open(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		return nil, err
	}
	cmd := &cobra.Command{}
	cmd.SetErr(io.Discard)
	_, err = i.all(cmd, lines, func(batch []timer.Request) error {
		batches = append(batches, append([]timer.Request{}, batch...))
		return nil
	})
	return batches, err
}

// Timers are scheduled in batches, in the order of lines, and the same one is never twice in
// one commit.
func TestImportInBatches(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	fmt.Fprintln(&text, "key,delay,tenant")
	for i := range 2*importBatch + 1 {
		fmt.Fprintf(&text, "k%d,1h,\n", i)
	}
	batches, err := importAll(t, "", text.String())
	if err != nil || len(batches) != 3 || len(batches[2]) != 1 || batches[2][0].Key != fmt.Sprintf("k%d", 2*importBatch) {
		t.Errorf("%d batches, %v", len(batches), err)
	}
	if _, err := importAll(t, "", `{"key":"b","delay":90}`); err == nil {
		t.Error("a number is not a duration in JSON")
	}
	batches, err = importAll(t, "", "{\"key\":\"a\",\"delay\":\"1m\"}\r\n\n{\"key\":\"a\",\"delay\":\"2m\",\"tenant\":\"other\"}\n {\"key\":\"a\",\"delay\":\"3m\"}")
	if err != nil || len(batches) != 2 || len(batches[0]) != 2 || batches[0][1].Tenant != "other" || batches[1][0].Delay != 3*time.Minute {
		t.Errorf("%v, %v", batches, err)
	}
	if batches, err = importAll(t, "", ""); err != nil || batches != nil {
		t.Errorf("nothing is %v, %v", batches, err)
	}
}

// A line that makes no sense is named, and what stands before it is scheduled.
func TestImportMistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"key,due_at\na,2099-01-01\nb", "line 3"},
		{"key,delay\na,1h\n,1h", "line 3: there is no key"},
		{"key\na", "line 2: there is neither due_at nor delay"},
		{"key,delay\na,soon", "line 2: "},
		{"key,delay\na,-1h", "line 2: delay is -1h0m0s, which is negative"},
		{"key,delay,payload\na,1h,{", "line 2: payload is not JSON"},
		{"delay\n1h", "line 1: there is no column key"},
		{"key,key\na,b", `line 1: the column "key" is there twice`},
		{"key,delay\n\"a\nb,1h", "line"},
		{`{"key":"a","delay":"1h"} {}`, "line 1: there is something behind the object"},
		{"{\"key\":\"a\",\"delay\":\"1h\"}\n{", "line 2: "},
	} {
		_, err := importAll(t, "", tt.text)
		var mistake *console.UsageError
		if !errors.As(err, &mistake) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
	batches, err := importAll(t, "", "key,delay\na,1h\nb,soon")
	if err == nil || len(batches) != 1 || len(batches[0]) != 1 {
		t.Errorf("before the mistake: %v, %v", batches, err)
	}
	if _, err := importAll(t, "xml", ""); err == nil || !strings.Contains(err.Error(), "allowed are: csv, jsonl") {
		t.Error(err)
	}
}
