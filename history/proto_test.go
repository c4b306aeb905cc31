package history

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"
)

// The tests here compare Append and Parse, which are written by hand, with what
// protobuf itself makes of history.proto.

var (
	messageLine = regexp.MustCompile(`^message (\w+) \{$`)
	fieldLine   = regexp.MustCompile(`^(repeated )?(\w+) (\w+) = (\d+);$`)
	protoTypes  = map[string]descriptorpb.FieldDescriptorProto_Type{
		"int32":   descriptorpb.FieldDescriptorProto_TYPE_INT32,
		"int64":   descriptorpb.FieldDescriptorProto_TYPE_INT64,
		"fixed64": descriptorpb.FieldDescriptorProto_TYPE_FIXED64,
		"double":  descriptorpb.FieldDescriptorProto_TYPE_DOUBLE,
		"bool":    descriptorpb.FieldDescriptorProto_TYPE_BOOL,
		"string":  descriptorpb.FieldDescriptorProto_TYPE_STRING,
		"bytes":   descriptorpb.FieldDescriptorProto_TYPE_BYTES,
	}
)

// parseProto reads as much of the language of protobuf as history.proto needs, and
// fails at the rest.
func parseProto(text string) (*descriptorpb.FileDescriptorProto, error) {
	file := &descriptorpb.FileDescriptorProto{Name: new("history.proto")}
	var message *descriptorpb.DescriptorProto
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		line = strings.TrimSpace(line)
		open, field := messageLine.FindStringSubmatch(line), fieldLine.FindStringSubmatch(line)
		switch {
		case line == "":
		case line == "}" && message != nil:
			message = nil
		case open != nil && message == nil:
			message = &descriptorpb.DescriptorProto{Name: new(open[1])}
			file.MessageType = append(file.MessageType, message)
		case field != nil && message != nil:
			message.Field = append(message.Field, parseField(field))
		case strings.HasPrefix(line, "syntax = "):
			file.Syntax = new(strings.Trim(line[len("syntax = "):], `";`))
		case strings.HasPrefix(line, "package "):
			file.Package = new(strings.Trim(line[len("package "):], ";"))
		default:
			return nil, fmt.Errorf("history.proto has a line that the test does not understand: %q", line)
		}
	}
	return file, nil
}

func parseField(m []string) *descriptorpb.FieldDescriptorProto {
	number, _ := strconv.ParseInt(m[4], 10, 32) // digits, by the expression; protodesc refuses 0
	f := &descriptorpb.FieldDescriptorProto{
		Name: new(m[3]), Number: new(int32(number)),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
	if m[1] != "" {
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	if kind, ok := protoTypes[m[2]]; ok {
		f.Type = kind.Enum()
	} else {
		f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), new(m[2])
	}
	return f
}

// eventType returns the message Event as history.proto defines it.
func eventType(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	text, err := os.ReadFile("history.proto")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parseProto(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range file.GetMessageType() { // names of messages are complete in a descriptor
		for _, f := range message.GetField() {
			if f.TypeName != nil {
				f.TypeName = new("." + file.GetPackage() + "." + f.GetTypeName())
			}
		}
	}
	built, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	event := built.Messages().ByName("Event")
	if event == nil {
		t.Fatal("history.proto has no message Event")
	}
	return event
}

// message builds a message field by field.
type message struct{ *dynamicpb.Message }

// set sets a field; to protobuf, a zero is the same as none.
func (m message) set(name string, v any) {
	field := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	if field == nil {
		panic(fmt.Sprintf("message %s has no field %s", m.Descriptor().Name(), name))
	}
	if list, ok := v.([]string); ok {
		for _, s := range list {
			m.Mutable(field).List().Append(protoreflect.ValueOf(s))
		}
		return
	}
	m.Set(field, protoreflect.ValueOf(v))
}

// sub sets a field to a message, and returns it.
func (m message) sub(name string) message {
	field := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	return message{m.Mutable(field).Message().Interface().(*dynamicpb.Message)}
}

// tags sets the field of that name.
func (m message) tags(tags map[string]string) {
	list := m.Mutable(m.Descriptor().Fields().ByName("tags")).List()
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		tag := message{list.AppendMutable().Message().Interface().(*dynamicpb.Message)}
		tag.set("name", name)
		tag.set("value", tags[name])
	}
}

// limits sets the field of that name.
func (m message) limits(limits []Limit) {
	list := m.Mutable(m.Descriptor().Fields().ByName("limits")).List()
	for i := range limits {
		limit := message{list.AppendMutable().Message().Interface().(*dynamicpb.Message)}
		limit.set("name", limits[i].Name)
		limit.set("keyed", limits[i].Keyed)
		limit.set("key", limits[i].Key)
		limit.set("concurrency", limits[i].Concurrency)
		limit.set("rate", limits[i].Rate)
		limit.set("per_ms", limits[i].Per.Milliseconds())
		limit.set("burst", limits[i].Burst)
	}
}

// asMessage returns an event as a message of protobuf's own.
func asMessage(event protoreflect.MessageDescriptor, e *Event) *dynamicpb.Message {
	m := message{dynamicpb.NewMessage(event)}
	m.set("id", e.ID)
	m.set("kind", int32(e.Kind))
	m.set("ref", e.Ref)
	m.set("name", e.Name)
	m.set("target", e.Target)
	if !e.At.IsZero() {
		m.set("at_ms", e.At.UnixMilli())
	}
	m.set("data", []byte(e.Data))
	if e.Failure != nil {
		setFailure(m.sub("failure"), e.Failure)
	}
	if s := e.Start; s != nil {
		m := m.sub("start")
		m.set("version", s.Version)
		m.set("execution", s.Execution)
		m.set("parent", s.Parent)
		m.set("parent_execution", s.ParentExecution)
		m.set("parent_event", s.ParentEvent)
		m.set("seed", s.Seed)
		m.set("parent_name", s.ParentName)
	}
	if a := e.Activity; a != nil {
		m := m.sub("activity")
		m.set("start_to_close_ms", a.StartToClose.Milliseconds())
		m.set("schedule_to_close_ms", a.ScheduleToClose.Milliseconds())
		m.set("heartbeat_ms", a.Heartbeat.Milliseconds())
		m.set("max_attempts", a.MaxAttempts)
		m.set("backoff_ms", a.Backoff.Milliseconds())
		m.set("backoff_max_ms", a.BackoffMax.Milliseconds())
		m.set("factor", a.Factor)
		m.set("final", a.Final)
		m.limits(a.Limits)
		m.set("priority", a.Priority)
	}
	if c := e.Child; c != nil {
		m := m.sub("child")
		m.set("version", c.Version)
		m.set("on_close", int32(c.OnClose))
		m.tags(c.Tags)
		m.set("replace", c.Replace)
		m.limits(c.Limits)
		m.set("priority", c.Priority)
	}
	if f := e.Foreign; f != nil {
		m := m.sub("foreign")
		m.set("id", f.ID)
		m.set("request", f.Request)
		m.set("version", f.Version)
		m.tags(f.Tags)
		m.set("trace_parent", f.TraceParent)
		m.set("trace_state", f.TraceState)
	}
	m.set("span", e.Span)
	m.set("build", e.Build)
	m.set("retired", e.Retired)
	m.set("by", e.By)
	m.set("discarded", e.Discarded)
	m.set("history_events", e.HistoryEvents)
	m.set("history_bytes", e.HistoryBytes)
	m.set("suggested", e.Suggested)
	return m.Message
}

func setFailure(m message, f *Failure) {
	m.set("type", f.Type)
	m.set("message", f.Message)
	m.set("final", f.Final)
	m.set("attempt", f.Attempt)
	m.set("details", []byte(f.Details))
	if f.Cause != nil {
		setFailure(m.sub("cause"), f.Cause)
	}
}

// agree compares what is written by hand with what protobuf writes, in both
// directions.
func agree(event protoreflect.MessageDescriptor, e *Event) error {
	want := asMessage(event, e)
	got := dynamicpb.NewMessage(event)
	if err := proto.Unmarshal(Append(nil, e)[1:], got); err != nil {
		return fmt.Errorf("protobuf does not read what Append wrote: %w", err)
	}
	if len(got.GetUnknown()) > 0 || !proto.Equal(got, want) {
		return fmt.Errorf("protobuf reads what Append wrote as\n%v\nwant\n%v", got, want)
	}
	wire, err := proto.Marshal(want)
	if err != nil {
		return fmt.Errorf("protobuf does not write it: %w", err)
	}
	parsed, err := Parse(append([]byte{wireVersion}, wire...))
	if err != nil {
		return fmt.Errorf("what protobuf wrote is not parsed: %w", err)
	}
	if !reflect.DeepEqual(&parsed, e) {
		return fmt.Errorf("what protobuf wrote is parsed as\n%+v\nwant\n%+v", parsed, e)
	}
	return nil
}

func TestTheWireFormatIsWhatTheProtoFileSays(t *testing.T) {
	t.Parallel()
	event := eventType(t)
	for _, e := range numbered() {
		if err := agree(event, &e); err != nil {
			t.Errorf("%v: %v", &e, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent(t)
		for k := Kind(1); k.Known(); k++ {
			e.Kind = k
			if err := agree(event, &e); err != nil {
				t.Fatalf("%v: %v", &e, err)
			}
		}
	})
}

// TestTheExamplesHaveAllFields fails when a field is in history.proto and nowhere
// else: the comparison would not notice.
func TestTheExamplesHaveAllFields(t *testing.T) {
	t.Parallel()
	event := eventType(t)
	seen := map[protoreflect.FullName]bool{}
	var mark func(protoreflect.Message)
	mark = func(m protoreflect.Message) {
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			seen[f.FullName()] = true
			switch {
			case f.IsList() && f.Message() != nil:
				for i := range v.List().Len() {
					mark(v.List().Get(i).Message())
				}
			case f.Message() != nil:
				mark(v.Message())
			}
			return true
		})
	}
	for _, e := range numbered() {
		mark(asMessage(event, &e))
	}
	messages := event.ParentFile().Messages()
	for i := range messages.Len() {
		fields := messages.Get(i).Fields()
		for j := range fields.Len() {
			if name := fields.Get(j).FullName(); !seen[name] {
				t.Errorf("no example has the field %s", name)
			}
		}
	}
}
