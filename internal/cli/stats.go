package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/store"
)

func newStats() *cobra.Command {
	var h home
	var watching watching
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show statistics of the store: queues, their age, leases and size",
		Long: `Show what the store holds: for each queue and route how many messages are pending, how many of
them are ready, and how long the oldest one has been waiting.

` + homeHelp,
		Example: `  abide stats
  abide stats -o json
  abide stats --watch`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.use(cmd, false, func(ctx context.Context, b backend) error {
				if watching.watch {
					return newWatch(cmd, &h.out, routeTitles...).poll(ctx, func(ctx context.Context) ([]item, bool, error) {
						s, err := b.stats(ctx)
						return itemsOf(s.Routes, func(r *store.RouteStats) item {
							return item{[2]string{r.Queue, r.Route}, api.RouteStats(*r), routeRow(r, &s)}
						}), true, err
					})
				}
				s, err := b.stats(ctx)
				if err != nil {
					return err
				}
				return h.out.print(cmd.OutOrStdout(), api.FromStats(&s), func(w io.Writer) error { return writeStats(w, &s) })
			})
		},
	}
	watching.addTo(cmd)
	h.addPlaceTo(cmd)
	return cmd
}

// routeTitles are the columns of queues.
var routeTitles = []string{"QUEUE", "ROUTE", "PENDING", "READY", "AGE"}

func routeRow(r *store.RouteStats, s *store.Stats) []cell {
	route := plain(r.Route)
	if r.Route == "" {
		route = cell{"(not started)", faint}
	}
	return []cell{plain(r.Queue), route, plain(strconv.Itoa(r.Pending)), plain(strconv.Itoa(r.Ready)), plain(ageOf(r, s))}
}

// ageOf says how long the oldest message of a queue has been visible, or when it will be.
func ageOf(r *store.RouteStats, s *store.Stats) string {
	switch {
	case r.Oldest.IsZero():
		return ""
	case r.Oldest.After(s.Now):
		return "in " + readable(r.Oldest.Sub(s.Now))
	default:
		return readable(s.Now.Sub(r.Oldest))
	}
}

// writeStats prints what a store holds.
func writeStats(w io.Writer, s *store.Stats) error {
	size := ""
	if s.Bytes > 0 {
		size = bytesText(s.Bytes)
	}
	behind := ""
	if s.ClockLead > 0 {
		behind = s.ClockLead.String()
	}
	err := writeFields(w, [][2]string{
		{"time", localTime(s.Now)},
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
	t := newTable(w, routeTitles...)
	for i := range s.Routes {
		t.add(routeRow(&s.Routes[i], s)...)
	}
	if err := t.write(w); err != nil || s.Rest.Routes == 0 {
		return err
	}
	_, err = fmt.Fprintf(w, "%s more with %s\n", counted(s.Rest.Routes, "route"), counted(s.Rest.Pending, "pending message"))
	return err
}

// bytesText is how people read a size.
func bytesText(n int64) string {
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
