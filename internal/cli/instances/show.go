package instances

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
)

// shownInstance is all there is about an instance, as programs read it.
type shownInstance struct {
	api.Instance
	Waits   []api.Wait    `json:"waits"`
	Turn    *api.Lease    `json:"turn,omitempty"`
	History abide.History `json:"history"`
}

func newInstancesShow() *cobra.Command {
	var h connect.Home
	var events int
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show an instance, its history and what it waits for",
		Long: `Show an instance in words: its state, what it waits for right now, and what has
happened in its latest execution, with times counted from its start.`,
		Example: `  abide instances show order-1
  abide instances show order-1 --events 20
  abide instances show order-1 -o json`,
		Args: console.OneArg(instanceID),
		RunE: func(cmd *cobra.Command, args []string) error {
			if events < 0 {
				return console.Usage("--events is %d; 0 for all, or how many of the latest", events)
			}
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				i, err := ReadInstance(ctx, engine, refOf(&h, args[0]))
				if err != nil {
					return err
				}
				value := shownInstance{Instance: api.FromInfo(&i.info), Waits: make([]api.Wait, len(i.waits)), Turn: (*api.Lease)(i.turn), History: i.history}
				for n := range i.waits {
					value.Waits[n] = api.FromWait(&i.waits[n])
				}
				return h.Out.Print(cmd.OutOrStdout(), value, func(w io.Writer) error { return i.Write(w, events) })
			})
		},
	}
	cmd.Flags().IntVar(&events, "events", 0, "how many of the latest events to show; 0 means all")
	h.AddTo(cmd)
	return cmd
}

// View is all there is about an instance, for people.
type View struct {
	info     abide.Info
	waits    []abide.Waiting
	history  abide.History
	messages []abide.Undelivered
	turn     *abide.Lease // of its turn, if a worker has claimed that
	unserved bool         // no worker serves it
}

// ReadInstance reads all there is about an instance.
func ReadInstance(ctx context.Context, engine *abide.Client, ref abide.Ref) (v View, err error) {
	if v.info, err = engine.Get(ctx, ref); err != nil {
		return v, err
	}
	v.history, err = engine.History(ctx, ref, 0)
	if err != nil && !errors.Is(err, abide.ErrNotFound) {
		return v, err // one that has not begun has none
	}
	if v.info.Status.Ended() {
		return v, nil
	}
	if v.waits, err = engine.Waits(ctx, ref); err != nil && !errors.Is(err, abide.ErrNotFound) {
		return v, err
	}
	if v.messages, err = engine.Undelivered(ctx, ref); err != nil && !errors.Is(err, abide.ErrNotFound) {
		return v, err
	}
	if v.turn, err = engine.TurnLease(ctx, ref); err != nil && !errors.Is(err, abide.ErrNotFound) {
		return v, err
	}
	v.unserved = isUnserved(ctx, engine, &v.info)
	return v, nil
}

// Write prints it, with so many of the latest events; 0 means all.
func (v *View) Write(w io.Writer, events int) error {
	if err := console.WriteFields(w, v.fields()); err != nil {
		return err
	}
	if err := v.writeWaits(w); err != nil {
		return err
	}
	return writeHistory(w, &v.history, v.info.StartedAt, events)
}

func (v *View) fields() [][2]string {
	i := &v.info
	fields := [][2]string{
		{"id", i.Ref.ID},
		{"tenant", i.Ref.Tenant},
		{"orchestration", orchestrationOf(i)},
		{"status", string(i.Status)},
		{"reason", i.Reason},
		{"runs in", i.Runtime},
		{"pinned to", i.Build},
		{"build", i.StalledBuild},
		{"says", i.StatusText},
		{"parent", i.Parent},
		{"started", console.LocalTime(i.StartedAt)},
		{"begun", console.LocalTime(i.BegunAt)},
		{"ended", console.LocalTime(i.EndedAt)},
	}
	if i.Status.Ended() && !i.EndedAt.IsZero() {
		fields = append(fields, [2]string{"took", console.Readable(i.EndedAt.Sub(i.StartedAt))})
	}
	if i.Execution > 1 {
		fields = append(fields, [2]string{"execution", strconv.Itoa(i.Execution)})
	}
	for _, name := range slices.Sorted(maps.Keys(i.Tags)) {
		fields = append(fields, [2]string{"tag", name + "=" + i.Tags[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(i.Values)) {
		fields = append(fields, [2]string{"value", name + " = " + payloadText(i.Values[name])})
	}
	if input, ok := v.input(); ok {
		fields = append(fields, [2]string{"input", payloadText(input)})
	}
	if i.BadPayload != nil {
		fields = append(fields, [2]string{"payload", payloadText(v.badPayload())})
	}
	fields = append(fields, [2]string{"result", payloadText(i.Result)})
	for err := i.Err; err != nil; err = errors.Unwrap(err) {
		fields = append(fields, [2]string{"error", err.Error()})
	}
	if v.turn != nil {
		fields = append(fields, [2]string{"turn", leaseText(v.turn, base.System{}.Now())})
	}
	return append(fields, [2]string{"next", v.next()})
}

// input returns what the execution was started with: from the history, or from the message that
// starts it if it has not begun.
func (v *View) input() (history.Payload, bool) {
	for i := range v.history.Events {
		if e := &v.history.Events[i]; e.Kind == history.ExecutionStarted {
			return e.Data, len(e.Data) > 0
		}
	}
	for i := range v.messages {
		if e := &v.messages[i].Event; e.Kind == history.ExecutionStarted {
			return e.Data, len(e.Data) > 0
		}
	}
	return nil, false
}

// badPayload returns the payload because of which the instance has stalled, if it is known.
func (v *View) badPayload() history.Payload {
	bad := v.info.BadPayload
	if bad.Event > 0 && bad.Event <= len(v.history.Events) {
		return v.history.Events[bad.Event-1].Data
	}
	for i := range v.messages {
		if v.messages[i].Message == bad.Message {
			return v.messages[i].Event.Data
		}
	}
	return nil
}

// next names the command that continues an instance which does not continue by itself.
func (v *View) next() string {
	id := v.info.Ref.ID
	switch v.info.Status {
	case abide.Suspended:
		return "it goes on when it is resumed: abide instances resume " + id
	case abide.Stalled:
		if bad := v.info.BadPayload; bad != nil {
			text := "correct the payload, and it goes on: abide instances correct " + id + " --data JSON"
			if bad.Kind == history.EventReceived {
				text += ", or --discard to drop the event"
			}
			return text
		}
		return "it goes on when it is resumed after a fix: abide instances resume " + id
	case abide.Failed:
		return "nothing, unless it is rewound, or restarted: abide instances rewind " + id
	case abide.Cancelled, abide.Terminated:
		return "nothing, unless it is restarted: abide instances restart " + id
	case abide.Pending, abide.Running:
		switch {
		case v.unserved && v.info.Build != "":
			return "it waits for a worker of build " + v.info.Build + ": there is none"
		case v.unserved:
			return "it waits for a process that serves " + orchestrationOf(&v.info) + ": there is none"
		}
	}
	return ""
}

// writeWaits prints what an instance waits for.
func (v *View) writeWaits(w io.Writer) error {
	if v.info.Status != abide.Running && v.info.Status != abide.Suspended && v.info.Status != abide.Stalled {
		return nil
	}
	if len(v.waits) == 0 {
		_, err := fmt.Fprintf(w, "\nwaits for\n  its next turn\n")
		return err
	}
	if _, err := fmt.Fprintf(w, "\nwaits for\n"); err != nil {
		return err
	}
	t := &console.Table{Width: console.TerminalWidth(w)}
	now := base.System{}.Now()
	for i := range v.waits {
		wait := &v.waits[i]
		number := ""
		if wait.Event > 0 {
			number = "#" + strconv.Itoa(wait.Event)
		}
		t.Add(console.Plain("  "+waitText(wait)), console.Plain(number), console.Plain(whenText(wait, now)))
	}
	return t.Write(w)
}
