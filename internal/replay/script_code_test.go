package replay_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

// The language of the scripts. A line is a statement, a block is in braces:
//
//	F = activity NAME [INPUT]   F = timer NAME DURATION    F = receive NAME
//	F = child NAME [ID]         F = promise NAME           X = detach NAME [ID]
//	wait F...                   select F...                keep F
//	cancel F                    cancel S [WHY]             move F DURATION
//	go {                        defer {                    shield {
//	scope S {                   in S {                     leave S
//	step NAME VALUE             step NAME fails MESSAGE    step NAME panics MESSAGE
//	if changed ID {             if failed F {              if A is B {
//	} else {
//	send ID NAME [DATA]         status TEXT                value NAME [DATA]
//	retired ID
//	complete [TEXT]             fail MESSAGE               fail with F
//	continue VERSION [INPUT]    panic TEXT                 stall TEXT
//
// In what a statement takes, $F is what came of F or of the step F; $it is the future
// that a select returned, $target.F the ID of the child F, $at.F the time of the timer
// F, $moved whether a move came in time; and $input, $now, $cancelled, $random, $self.
type statement struct {
	words []string
	line  string
	body  []statement
	other []statement // behind else
}

// parseCode reads statements up to the end of their block.
func parseCode(lines *[]string) ([]statement, error) {
	var block []statement
	for len(*lines) > 0 {
		line := strings.TrimSpace((*lines)[0])
		if strings.HasPrefix(line, "}") {
			return block, nil
		}
		*lines = (*lines)[1:]
		line, opens := strings.CutSuffix(line, "{")
		s := statement{words: strings.Fields(line), line: strings.TrimSpace(line)}
		if opens {
			var err error
			if s.body, err = parseBlock(lines); err != nil {
				return nil, err
			}
			if closing := strings.TrimSpace((*lines)[0]); closing == "} else {" {
				*lines = (*lines)[1:]
				if s.other, err = parseBlock(lines); err != nil {
					return nil, err
				}
			}
			*lines = (*lines)[1:]
		}
		if len(s.words) > 0 {
			block = append(block, s)
		}
	}
	return block, nil
}

func parseBlock(lines *[]string) ([]statement, error) {
	body, err := parseCode(lines)
	if err == nil && len(*lines) == 0 {
		err = fmt.Errorf("a block has no end")
	}
	return body, err
}

// program is an orchestration that a script has defined.
type program struct {
	block []statement
	ran   func(step string) // is told of each step that is run
}

func parseProgram(text string, ran func(string)) (*program, error) {
	lines := strings.Split(text, "\n")
	block, err := parseCode(&lines)
	if err == nil && len(lines) > 0 {
		err = fmt.Errorf("unexpected %q", lines[0])
	}
	return &program{block: block, ran: ran}, err
}

// code is the program as an execution runs it.
func (p *program) code(c *replay.Context, input []byte) replay.Outcome {
	r := &running{
		ran: p.ran, input: string(input), futures: map[string]*replay.Future{}, words: map[string]string{},
		settle: map[string]func(){}, scopes: map[string]*replay.Context{}, cancels: map[string]func(string){},
	}
	if o := r.block(c, p.block); o != nil {
		return *o
	}
	return replay.Outcome{}
}

// running is a program that runs. Its coroutines share all names.
type running struct {
	ran     func(string)
	input   string
	futures map[string]*replay.Future
	words   map[string]string
	settle  map[string]func()
	scopes  map[string]*replay.Context
	cancels map[string]func(string)
}

// block runs statements, and returns how the code ends if one of them ends it.
func (r *running) block(c *replay.Context, block []statement) *replay.Outcome {
	for i := range block {
		if block[i].words[0] == "defer" {
			return r.deferring(c, block[i].body, block[i+1:])
		}
		if o := r.statement(c, &block[i]); o != nil {
			return o
		}
	}
	return nil
}

// deferring runs the rest of a block, and then the body.
func (r *running) deferring(c *replay.Context, body, rest []statement) *replay.Outcome {
	defer r.block(c, body)
	return r.block(c, rest)
}

func (r *running) statement(c *replay.Context, s *statement) *replay.Outcome {
	if len(s.words) > 2 && s.words[1] == "=" {
		r.assign(c, s.words[0], s.words[2], r.args(c, s.words[3:]))
		return nil
	}
	args := r.args(c, s.words[1:])
	text := strings.Join(args, " ")
	switch s.words[0] {
	case "if":
		if r.holds(c, args) {
			return r.block(c, s.body)
		}
		return r.block(c, s.other)
	case "go":
		c.Go(func(c *replay.Context) { r.block(c, s.body) })
	case "shield":
		return r.block(c.Shield(), s.body)
	case "scope":
		r.scopes[args[0]], r.cancels[args[0]] = c.WithScope()
		return r.block(r.scopes[args[0]], s.body)
	case "in":
		return r.block(r.scopes[args[0]], s.body)
	case "complete":
		o := result(text)
		return &o
	case "fail":
		o := replay.Outcome{Failure: &history.Failure{Type: "test", Message: text}}
		if args[0] == "with" {
			_, o.Failure = r.future(args[1]).Result()
		}
		return &o
	case "continue":
		return &replay.Outcome{Continue: &replay.Continue{Name: "order", Version: args[0], Input: []byte(rest(args, 1))}}
	case "panic":
		panic(text)
	case "stall":
		c.Stall(errors.New(text))
	default:
		r.act(c, s, args)
	}
	return nil
}

// act runs a statement that neither ends the code nor has a block.
func (r *running) act(c *replay.Context, s *statement, args []string) {
	switch s.words[0] {
	case "wait":
		c.Wait(r.all(args)...)
	case "select":
		r.words["it"] = args[c.WaitAny(r.all(args)...)]
	case "keep":
		r.settle[args[0]]()
	case "cancel":
		if cancel := r.cancels[args[0]]; cancel != nil {
			cancel(rest(args, 1))
		} else {
			c.Cancel(r.future(args[0]))
		}
	case "leave":
		r.scopes[args[0]].Leave()
	case "move":
		r.words["moved"] = strconv.FormatBool(c.Move(r.future(args[0]), c.Now().Add(duration(args[1]))))
	case "step":
		r.step(c, args)
	case "send":
		c.Send(args[0], args[1], []byte(rest(args, 2)))
	case "status":
		c.SetStatus(strings.Join(args, " "))
	case "retired":
		c.Retired(args[0])
	case "value":
		c.SetValue(args[0], []byte(rest(args, 1)))
	default:
		panic(fmt.Sprintf("the script says %q", s.line))
	}
}

// assign gives a name to a future, or to the ID of an instance.
func (r *running) assign(c *replay.Context, name, what string, args []string) {
	switch what {
	case "activity":
		r.futures[name] = c.Activity(args[0], []byte(rest(args, 1)), history.Activity{})
	case "timer":
		r.futures[name] = c.Timer(args[0], c.Now().Add(duration(args[1])))
	case "receive":
		r.futures[name] = c.Receive(args[0])
	case "child":
		r.futures[name] = c.Child(args[0], rest(args, 1), nil, history.Child{})
	case "promise":
		r.futures[name], r.settle[name] = c.Promise(args[0])
	case "detach":
		r.words[name] = c.Detach(args[0], rest(args, 1), nil, history.Child{})
	default:
		panic(fmt.Sprintf("the script says %s = %s", name, what))
	}
}

func (r *running) step(c *replay.Context, args []string) {
	data, failure := c.Step(args[0], func(context.Context) ([]byte, *history.Failure) {
		r.ran(args[0])
		switch {
		case len(args) > 2 && args[1] == "fails":
			return nil, &history.Failure{Message: rest(args, 2)}
		case len(args) > 2 && args[1] == "panics":
			panic(rest(args, 2))
		}
		return []byte(rest(args, 1)), nil
	})
	r.words[args[0]] = outcome(data, failure)
}

func (r *running) holds(c *replay.Context, args []string) bool {
	switch args[0] {
	case "changed":
		return c.Changed(args[1])
	case "failed":
		_, failure := r.future(args[1]).Result()
		return failure != nil
	default:
		return args[0] == args[len(args)-1]
	}
}

var variable = regexp.MustCompile(`\$[\w.]+`)

// args puts values into the place of names.
func (r *running) args(c *replay.Context, words []string) []string {
	args := make([]string, len(words))
	for i, w := range words {
		args[i] = variable.ReplaceAllStringFunc(w, func(name string) string { return r.value(c, name[1:]) })
	}
	return args
}

func (r *running) value(c *replay.Context, name string) string {
	switch name {
	case "input":
		return r.input
	case "now":
		return since(c.Now())
	case "self":
		return c.Self()
	case "random":
		return fmt.Sprintf("%016x", c.Uint64())
	case "cancelled":
		if c.Cancelled() == nil {
			return "no"
		}
		return c.Cancelled().Message
	}
	if name, ok := strings.CutPrefix(name, "target."); ok {
		return r.future(name).Target()
	}
	if name, ok := strings.CutPrefix(name, "at."); ok {
		return since(r.future(name).At())
	}
	if word, ok := r.words[name]; ok {
		return word
	}
	if f := r.future(name); !f.Done() {
		return "unknown"
	}
	return outcome(r.future(name).Result())
}

func (r *running) future(name string) *replay.Future {
	if f := r.futures[name]; f != nil {
		return f
	}
	panic(fmt.Sprintf("the script has no %q", name))
}

func (r *running) all(names []string) []*replay.Future {
	futures := make([]*replay.Future, len(names))
	for i, name := range names {
		futures[i] = r.future(name)
	}
	return futures
}

// outcome is what is known, in words.
func outcome(data []byte, failure *history.Failure) string {
	if failure != nil {
		return failure.Message
	}
	return string(data)
}

// rest returns the words from the i-th on.
func rest(words []string, i int) string { return strings.Join(words[min(i, len(words)):], " ") }

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

// since returns a time as that since noon.
func since(t time.Time) string { return t.Sub(noon).String() }
