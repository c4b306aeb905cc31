package stats

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/store"
)

// New returns the command abide stats.
func New() *cobra.Command {
	var h connect.Home
	var watching console.Watching
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show statistics of the store: queues, their age, leases and size",
		Long: `Show what the store holds: for each queue and route how many messages are pending, how many of
them are ready, how many of those are leased by a process that works on them, or did until it was
killed, and how long the oldest one has been waiting. abide instances show tells who has leased an
instance or its activities, and until when.

The messages of an instance that waits for a limit, or is suspended or stalled, are not ready: no
process claims them. Activities that wait for a limit are in no queue: abide limits list shows them.

` + connect.HomeHelp,
		Example: `  abide stats
  abide stats -o json
  abide stats --watch`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.Use(cmd, false, func(ctx context.Context, b connect.Backend) error {
				if watching.Watch {
					var s store.Stats
					return RouteRows(&s).Watch(ctx, cmd, &h.Out, func(ctx context.Context) (_ []store.RouteStats, _ bool, err error) {
						s, err = b.Stats(ctx)
						return s.Routes, true, err
					})
				}
				s, err := b.Stats(ctx)
				if err != nil {
					return err
				}
				return h.Out.Print(cmd.OutOrStdout(), api.FromStats(&s), func(w io.Writer) error { return WriteStats(w, &s) })
			})
		},
	}
	watching.AddTo(cmd)
	h.AddPlaceTo(cmd)
	return cmd
}

// heldRoutes says what the messages of instances wait for that are visible, and that no process claims. They are not ready.
var heldRoutes = map[string]string{".limited": "(waiting for a limit)", ".parked": "(suspended or stalled)"}

// RouteRows prints the routes of s, with ages at its time.
func RouteRows(s *store.Stats) console.Rows[store.RouteStats, api.RouteStats] {
	return console.Rows[store.RouteStats, api.RouteStats]{
		Titles: []string{"QUEUE", "ROUTE", "PENDING", "READY", "LEASED", "AGE"},
		Row: func(r *store.RouteStats) []console.Cell {
			if what, held := heldRoutes[r.Route]; held && r.Queue == "turns" {
				return console.Row(r.Queue, console.Cell{Text: what, Colour: console.Faint}, r.Pending, 0, r.Leased, "")
			}
			route := console.Plain(r.Route)
			switch r.Route {
			case "":
				route = console.Cell{Text: "(not started)", Colour: console.Faint}
			case ".limits":
				route = console.Cell{Text: "(gates of limits)", Colour: console.Faint}
			}
			return console.Row(r.Queue, route, r.Pending, r.Ready, r.Leased, ageOf(r, s))
		},
		Wire: func(r *store.RouteStats) api.RouteStats { return api.RouteStats(*r) },
		Key:  func(r *store.RouteStats) [2]string { return [2]string{r.Queue, r.Route} },
	}
}

// ageOf says how long the oldest message of a queue has been visible, or when it will be.
func ageOf(r *store.RouteStats, s *store.Stats) string {
	switch {
	case r.Oldest.IsZero():
		return ""
	case r.Oldest.After(s.Now):
		return "in " + console.Readable(r.Oldest.Sub(s.Now))
	default:
		return console.Readable(s.Now.Sub(r.Oldest))
	}
}

// WriteStats prints what a store holds.
func WriteStats(w io.Writer, s *store.Stats) error {
	size := ""
	if s.Bytes > 0 {
		size = BytesText(s.Bytes)
	}
	behind := ""
	if s.ClockLead > 0 {
		behind = s.ClockLead.String()
	}
	err := console.WriteFields(w, [][2]string{
		{"time", console.LocalTime(s.Now)},
		{"size", size},
		{"leases", strconv.Itoa(s.Leases)},
		{"clock behind by", behind},
	})
	if err != nil || len(s.Routes) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := RouteRows(s).WriteTable(w, s.Routes); err != nil || s.Rest.Routes == 0 {
		return err
	}
	_, err = fmt.Fprintf(w, "%s more with %s\n", console.Counted(s.Rest.Routes, "route"), console.Counted(s.Rest.Pending, "pending message"))
	return err
}

// BytesText is how people read a size.
func BytesText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	size, prefixes := float64(n)/unit, "KMGTPE"
	for size >= unit && len(prefixes) > 1 {
		size, prefixes = size/unit, prefixes[1:]
	}
	return fmt.Sprintf("%.1f %ciB", size, prefixes[0])
}
