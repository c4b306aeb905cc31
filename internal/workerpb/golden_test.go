package workerpb_test

import (
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/abidehq/abide/internal/workerpb"
)

var update = flag.Bool("update", false, "write the golden files")

// fill sets all fields of a message, those of messages in it included, to values that differ.
func fill(m protoreflect.Message, seed *int64) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("key").MapKey(), protoreflect.ValueOfString("value"))
		case f.IsList() && f.Message() != nil:
			fill(m.Mutable(f).List().AppendMutable().Message(), seed)
		case f.IsList():
			m.Mutable(f).List().Append(value(f, seed))
		case f.Message() != nil:
			fill(m.Mutable(f).Message(), seed)
		default:
			m.Set(f, value(f, seed))
		}
	}
}

// value returns a value of a field that is no message.
func value(f protoreflect.FieldDescriptor, seed *int64) protoreflect.Value {
	*seed++
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(*seed))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(*seed)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(*seed))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(*seed))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(string(f.Name()))
	default:
		return protoreflect.ValueOfBytes([]byte(f.Name()))
	}
}

// TestBytes: a release reads what the release before it wrote: numbers and types of fields stay. A
// message of a later release, with a field that is not known, is read too.
func TestBytes(t *testing.T) {
	t.Parallel()
	for _, m := range []proto.Message{&workerpb.FromWorker{}, &workerpb.ToWorker{}, &workerpb.CallRequest{}, &workerpb.CallPart{}} {
		var seed int64
		fill(m.ProtoReflect(), &seed)
		name := string(m.ProtoReflect().Descriptor().Name())
		path := filepath.Join("testdata", name+".hex")
		if *update {
			data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(hex.EncodeToString(data)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		got := m.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(data, got); err != nil || !proto.Equal(got, m) {
			t.Errorf("%s is read as %v, want %v: %v", name, got, m, err)
		}
		const later = "\xfa\x7f\x01x" // field 2047, bytes
		got = m.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(append(data, later...), got); err != nil {
			t.Errorf("%s of a later release: %v", name, err)
		}
		got.ProtoReflect().SetUnknown(nil)
		if !proto.Equal(got, m) {
			t.Errorf("%s of a later release is read as %v", name, got)
		}
	}
}
