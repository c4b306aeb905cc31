package limits

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"
	"github.com/abidehq/abide/server/api"
)

// What a rule may have. The engine checks it too; here a mistake is named by its flag.
const (
	maxConcurrency = 10_000
	maxRate        = 1_000_000
	minPer         = time.Millisecond
	maxPer         = 366 * 24 * time.Hour
)

// set is the verb: abide limits set.
type set struct {
	connect.Home
	concurrency, burst int
	rate               string
	perKey             bool
}

func newSet() *cobra.Command {
	s := &set{}
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Set the rule of a limit, or make a limit",
		Long: `Set the rule of a limit instead of the one that code declares. What no flag names stays as the rule
has it at present, but a new rate has the default burst; 0 removes a concurrency or a rate. It makes
the limit if there is none. What is under way goes on, and what waits is admitted by the new rule
within a second, in all processes.`,
		Example: `  abide limits set stripe --concurrency 5 --rate 20/s
  abide limits set stripe --rate 1000/1m30s --burst 50
  abide limits set customer --concurrency 2 --per-key`,
		Args: console.OneArg(limitName),
		RunE: s.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&s.concurrency, "concurrency", 0, "how many may be under way at the same time, at most 10000; 0: any number")
	f.StringVar(&s.rate, "rate", "", "how many may begin in a period, as N/DURATION: 100/s, 5000/1h30m; 0: any number")
	f.IntVar(&s.burst, "burst", 0, "how many of the rate may begin at once; 0: what the rate brings in a tenth of a second")
	f.BoolVar(&s.perKey, "per-key", false, "each key has a limit of its own; cannot be changed of a limit that exists")
	s.AddTo(cmd)
	return cmd
}

func (s *set) run(cmd *cobra.Command, args []string) error {
	change, err := s.changes(cmd)
	if err != nil {
		return err
	}
	return s.UseEngine(cmd, true, func(ctx context.Context, engine *abide.Client) error {
		now, err := engine.Limit(ctx, s.Tenant, args[0])
		if err != nil && !errors.Is(err, abide.ErrNotFound) {
			return err
		}
		rule := now.Rule()
		change(&rule)
		switch {
		case rule.Concurrency == 0 && rule.Rate == 0:
			return console.Usage("limit %q would have neither a concurrency nor a rate: give --concurrency or --rate; to admit nothing, pause it", args[0])
		case rule.Rate == 0 && cmd.Flags().Changed("burst") && s.burst > 0:
			return console.Usage("--burst is about a rate, and limit %q would have none: give --rate", args[0])
		case now.Revision != 0 && cmd.Flags().Changed("per-key") && s.perKey != now.PerKey:
			return console.Usage("--per-key cannot be changed of limit %q, which exists", args[0])
		}
		to := abide.LimitChange{Set: &rule, PerKey: s.perKey || now.PerKey, Revision: now.Revision}
		info, err := engine.ChangeLimit(ctx, s.Tenant, args[0], to)
		if err != nil {
			return err
		}
		return rows.PrintOne(cmd, &s.Out, info)
	})
}

// changes returns what the flags change about a rule, or a mistake in them.
func (s *set) changes(cmd *cobra.Command) (func(*abide.LimitRule), error) {
	given := cmd.Flags().Changed
	if !given("concurrency") && !given("rate") && !given("burst") {
		return nil, console.Usage("%q needs --concurrency, --rate or --burst", cmd.CommandPath())
	}
	if s.concurrency < 0 || s.concurrency > maxConcurrency {
		return nil, console.Usage("--concurrency is %d; allowed are 0 to %d", s.concurrency, maxConcurrency)
	}
	if s.burst < 0 || s.burst > maxRate {
		return nil, console.Usage("--burst is %d; allowed are 0 to %d", s.burst, maxRate)
	}
	rate, per, err := parseRate(s.rate)
	if given("rate") && err != nil {
		return nil, err
	}
	return func(r *abide.LimitRule) {
		if given("concurrency") {
			r.Concurrency = s.concurrency
		}
		if given("rate") {
			r.Rate, r.Per, r.Burst = rate, per, 0
		}
		if given("burst") {
			r.Burst = s.burst
		}
		if r.Rate == 0 {
			r.Burst = 0
		}
	}, nil
}

// parseRate reads N/DURATION, where the number of a duration of one unit can be missing, or 0.
func parseRate(text string) (n int, per time.Duration, err error) {
	if text == "0" {
		return 0, 0, nil
	}
	number, period, ok := strings.Cut(text, "/")
	n, err = strconv.Atoi(number)
	if !ok || err != nil {
		return 0, 0, console.Usage("--rate is %q; allowed is N/DURATION, such as 100/s, 5000/1h30m, or 0 for any number", text)
	}
	if n < 1 || n > maxRate {
		return 0, 0, console.Usage("--rate is %q: %d in a period; allowed are 1 to %d", text, n, maxRate)
	}
	if strings.Trim(period, "msh") == "" { // a unit alone
		period = "1" + period
	}
	if per, err = api.ParseDuration(period); err != nil {
		return 0, 0, console.Usage("--rate is %q: %w", text, err)
	}
	if per < minPer || per > maxPer {
		return 0, 0, console.Usage("--rate is %q: a period of %v; allowed are %v to %v", text, per, minPer, maxPer)
	}
	return n, per, nil
}

// changing makes cmd a command that changes a limit and prints it.
func changing(cmd *cobra.Command, change abide.LimitChange) *cobra.Command {
	return connect.Verb(cmd, limitName, connect.Backend.Engine, func(ctx context.Context, engine *abide.Client, tenant, name string) (abide.LimitInfo, error) {
		return engine.ChangeLimit(ctx, tenant, name, change)
	}, func(cmd *cobra.Command, out *console.Output, l abide.LimitInfo) error {
		if l.Revision == 0 { // it is deleted
			return out.Print(cmd.OutOrStdout(), api.FromLimit(&l), func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "limit %s deleted: no code has declared it\n", console.Printable(l.Name))
				return err
			})
		}
		return rows.PrintOne(cmd, out, l)
	})
}

func newPause() *cobra.Command {
	return changing(&cobra.Command{
		Use:     "pause NAME",
		Short:   "Pause a limit: nothing begins under it",
		Long:    "Pause a limit: nothing begins under it until it is resumed. What is under way goes on, and what\nwaits keeps its place.",
		Example: "  abide limits pause stripe",
	}, abide.LimitChange{Paused: new(true)})
}

func newResume() *cobra.Command {
	return changing(&cobra.Command{
		Use:     "resume NAME",
		Short:   "Resume a limit that is paused",
		Example: "  abide limits resume stripe",
	}, abide.LimitChange{Paused: new(false)})
}

func newUnset() *cobra.Command {
	return changing(&cobra.Command{
		Use:     "unset NAME",
		Short:   "Go back to the rule that code declares",
		Long:    "Go back to the rule that code declares. A limit that no code has declared is deleted: what waits\nunder it begins.",
		Example: "  abide limits unset stripe",
	}, abide.LimitChange{Unset: true})
}
