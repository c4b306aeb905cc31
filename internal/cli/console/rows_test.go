package console

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// pet is something that can be listed.
type pet struct {
	Owner string `json:"owner"`
	Name  string `json:"name"`
	Legs  int    `json:"legs"`
}

var petRows = Rows[pet, pet]{
	Noun:   "pets",
	Titles: []string{"NAME", "LEGS", "BORN"},
	Row:    func(p *pet) []Cell { return Row(p.Name, p.Legs, time.Time{}) },
	Wire:   Same[pet],
	Key:    func(p *pet) [2]string { return [2]string{p.Owner, p.Name} },
	Page:   func(all []pet, next string) any { return map[string]any{"pets": all, "next": next} },
}

// A table and the JSON of a list, of single values and of none come from one description.
func TestRows(t *testing.T) {
	t.Parallel()
	all := []pet{{"ann", "rex", 4}, {"bob", "tweety", 2}}
	pages := func(found []pet, next string) ReadPage[pet] {
		return func(context.Context, int, string) ([]pet, string, error) { return found, next, nil }
	}
	for _, tt := range []struct {
		name                string
		print               func(cmd *cobra.Command, out *Output) error
		table, said, asJSON string
	}{
		{"one", func(cmd *cobra.Command, out *Output) error { return petRows.PrintOne(cmd, out, all[0]) },
			"NAME  LEGS  BORN\nrex   4\n", "", `{"owner":"ann","name":"rex","legs":4}`},
		{"none that was changed", func(cmd *cobra.Command, out *Output) error { return petRows.PrintEach(cmd, out, nil) }, "", "", `[]`},
		{"an empty list", func(cmd *cobra.Command, out *Output) error { return petRows.PrintAll(cmd, out, nil) },
			"", "there are no pets\n", `{"next":"","pets":[]}`},
		{"a page", func(cmd *cobra.Command, out *Output) error {
			return petRows.WithTenant().PrintPages(cmd.Context(), cmd, out, Paging{limit: 2}, false, pages(all, "n"))
		}, "TENANT  NAME    LEGS  BORN\nann     rex     4\nbob     tweety  2\n", "there may be more: --limit or --page-token n shows them\n",
			`{"next":"n","pets":[{"owner":"ann","name":"rex","legs":4},{"owner":"bob","name":"tweety","legs":2}]}`},
	} {
		for _, asJSON := range []bool{false, true} {
			var stdout, stderr bytes.Buffer
			cmd := &cobra.Command{}
			cmd.SetContext(t.Context())
			cmd.SetOut(&stdout)
			cmd.SetErr(&stderr)
			if err := tt.print(cmd, &Output{json: asJSON}); err != nil {
				t.Error(err)
			}
			want, said := tt.table, tt.said
			if asJSON {
				want, said = tt.asJSON+"\n", ""
			}
			if stdout.String() != want || stderr.String() != said {
				t.Errorf("%s, JSON %v: printed %q and %q", tt.name, asJSON, stdout.String(), stderr.String())
			}
		}
	}
	if petRows.Titles[0] != "NAME" {
		t.Error("WithTenant has changed the rows that it was called on")
	}
}
