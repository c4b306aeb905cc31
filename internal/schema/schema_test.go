package schema

import (
	"encoding/json"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/internal/check"
)

type Address struct {
	Street string `json:"street"`
	Number uint8
}

type base struct {
	ID     string
	Hidden int `json:"-"`
}

type order struct {
	base
	*Address
	Approved bool              `json:"approved"`
	By       *string           `json:"by,omitempty"`
	Cents    int64             `json:"cents"`
	Small    int8              `json:"small"`
	Rate     float64           `json:"rate"`
	When     time.Time         `json:"when"`
	Wait     time.Duration     `json:"wait"`
	Lines    []Address         `json:"lines"`
	Pair     [2]int            `json:"pair"`
	Tags     map[string]string `json:"tags"`
	ByNumber map[int]string    `json:"by_number"`
	Raw      json.RawMessage   `json:"raw,omitempty"`
	IP       netip.Addr        `json:"ip"`
	Any      any               `json:"any"`
	Blob     []byte            `json:"blob"`
	Quoted   int               `json:"quoted,string"`
	Next     *order            `json:"next,omitempty"`
}

type tree struct {
	Name     string `json:"name"`
	Children []tree `json:"children"`
}

func types() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[order](), reflect.TypeFor[tree](), reflect.TypeFor[*tree](), reflect.TypeFor[int](), reflect.TypeFor[uint16](),
		reflect.TypeFor[string](), reflect.TypeFor[bool](), reflect.TypeFor[float32](), reflect.TypeFor[[]int](), reflect.TypeFor[map[string][]bool](),
		reflect.TypeFor[time.Time](), reflect.TypeFor[time.Duration](), reflect.TypeFor[struct{}](), reflect.TypeFor[any](), reflect.TypeFor[[]byte](),
	}
}

// TestSchemaIsGolden: schemas are kept in stores and used by programs in other languages.
func TestSchemaIsGolden(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, typ := range types() {
		s := Of(typ)
		var indented strings.Builder
		e := json.NewEncoder(&indented)
		e.SetIndent("", "  ")
		if err := e.Encode(s); err != nil {
			t.Fatal(err)
		}
		b.WriteString(typ.String() + "\n" + indented.String() + "example " + string(s.Example()) + "\n\n")
		again, err := Parse(s.JSON())
		if err != nil {
			t.Fatalf("%v: %v", typ, err)
		}
		if got, want := string(again.JSON()), string(s.JSON()); got != want {
			t.Errorf("%v: read again as %s, want %s", typ, got, want)
		}
	}
	check.Golden(t, "testdata/schemas.txt", b.String())
}

// TestExampleFits: what a form begins with is accepted by the schema and by encoding/json.
func TestExampleFits(t *testing.T) {
	t.Parallel()
	for _, typ := range types() {
		example := Of(typ).Example()
		if typ == reflect.TypeFor[order]() { // texts that are empty are no quoted number and no address
			example = []byte(strings.Replace(string(example), `"quoted": ""`, `"quoted": "0"`, 1))
		}
		if err := Of(typ).Check(example); err != nil {
			t.Errorf("%v: example %s: %v", typ, example, err)
		}
		if err := json.Unmarshal(example, reflect.New(typ).Interface()); err != nil {
			t.Errorf("%v: example %s: %v", typ, example, err)
		}
	}
}

// TestErrors: an error names the place, what is there and what is allowed.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ json, want string }{
		{`"yes"`, `it is "yes", want an object with ID, street, Number, approved, by, cents, small, rate, when, wait, lines, pair, tags, by_number, raw, ip, any, blob, quoted, next`},
		{`{"approved":"yes"}`, `approved is "yes", want true or false`},
		{`{"aproved":true}`, `aproved is an unknown field, want one of ID, street, `},
		{`{"wait":"48h"}`, `wait is "48h", want an integer (nanoseconds)`},
		{`{"cents":1.5}`, `cents is 1.5, want an integer`},
		{`{"small":128}`, `small is 128, want an integer from -128 to 127`},
		{`{"Number":-1}`, `Number is -1, want an integer from 0 to 255`},
		{`{"lines":[{"street":"a"},{"street":7}]}`, `lines[1].street is 7, want a text in quotes`},
		{`{"tags":{"a":true}}`, `tags.a is true, want a text in quotes`},
		{`{"when":"tomorrow"}`, `when is "tomorrow", want a time such as "2026-03-01T12:00:00Z"`},
		{`{"next":{"next":{"approved":null}}}`, `next.next.approved is null, want true or false`},
		{`{approved: true}`, `it is not JSON (invalid character 'a'`},
		{`{} {}`, `it is more than one JSON value`},
		{`null`, `it is null, want an object`},
		{`{"blob":"?"}`, `blob is "?", want a text in base64 or null`},
		{`{"any":[{"a":1e400}]}`, `any[0].a is 1e400, want a number up to 1.8e308`},
	} {
		err := Of(reflect.TypeFor[order]()).Check([]byte(c.json))
		var of *Error
		if !errors.As(err, &of) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.json, err, c.want)
		}
	}
	for _, good := range []string{``, `{}`, `{"APPROVED":true}`, `{"by":null,"lines":null}`, `{"next":{"next":null}}`, `{"any":[1]}`, `{"Number":255}`} {
		if err := Of(reflect.TypeFor[order]()).Check([]byte(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

// TestLargeTypes: the schema of a type that is too large to be described accepts any value.
func TestLargeTypes(t *testing.T) {
	t.Parallel()
	var fields []reflect.StructField
	for i := range 1_000 {
		fields = append(fields, reflect.StructField{Name: "F" + strings.Repeat("x", 20+i%7) + string(rune('A'+i%26)) + strings.Repeat("y", i/26), Type: reflect.TypeFor[int]()})
	}
	s := Of(reflect.StructOf(fields))
	if n := len(s.JSON()); n > MaxSize || s.Type != "" || s.Check([]byte(`"anything"`)) != nil {
		t.Errorf("the schema of %d fields has %d bytes: %.200s", len(fields), n, s.JSON())
	}
}

// values draws JSON that is often nearly right: names of fields, and all kinds of values.
func values(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kind := rapid.IntRange(0, 9).Draw(t, "kind")
		if depth == 0 {
			kind = min(kind, 7)
		}
		switch kind {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2:
			return rapid.Int64().Draw(t, "int")
		case 3:
			return rapid.IntRange(-130, 260).Draw(t, "small")
		case 4:
			return rapid.Float64Range(-1e6, 1e6).Draw(t, "float")
		case 5:
			return rapid.SampledFrom([]string{"", "text", "2026-03-01T12:00:00Z", "YQ==", "10.0.0.1", "7", "true"}).Draw(t, "text")
		case 6:
			return json.Number(rapid.SampledFrom([]string{"1e3", "-0", "1.0", "18446744073709551615", "18446744073709551616", "1e400"}).Draw(t, "number"))
		case 7:
			return []any{}
		case 8:
			return rapid.SliceOfN(values(depth-1), 0, 3).Draw(t, "list")
		default:
			names := []string{
				"ID", "street", "Number", "approved", "by", "cents", "small", "rate", "when", "wait", "lines", "pair", "tags",
				"by_number", "raw", "any", "blob", "next", "name", "children", "APPROVED", "unknown",
			}
			object := map[string]any{}
			for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(t, "names") {
				object[name] = values(depth-1).Draw(t, name)
			}
			return object
		}
	})
}

// TestWhatFitsIsDecoded: JSON that Check accepts, encoding/json decodes. Fields that decode themselves
// (an IP address, a number in quotes) are not drawn: of these the schema only knows that they are texts.
func TestWhatFitsIsDecoded(t *testing.T) {
	t.Parallel()
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 10 {
			fitsOrNot(t, &accepted)
		}
	})
	if accepted < 20 {
		t.Errorf("%d values were accepted, so nothing was shown", accepted)
	}
}

func fitsOrNot(t *rapid.T, accepted *int) {
	data, err := json.Marshal(values(4).Draw(t, "value"))
	if err != nil {
		return
	}
	typ := rapid.SampledFrom(types()).Draw(t, "type")
	if Of(typ).Check(data) != nil {
		return
	}
	*accepted++
	if err := json.Unmarshal(data, reflect.New(typ).Interface()); err != nil && !strings.Contains(string(data), "by_number") {
		t.Errorf("%s fits %v, and cannot be decoded: %v", data, typ, err)
	}
}

// TestWhatIsEncodedFits: JSON that encoding/json makes of a value, Check accepts.
func TestWhatIsEncodedFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := order{
			base: base{ID: rapid.String().Draw(t, "id")}, Approved: rapid.Bool().Draw(t, "approved"), Cents: rapid.Int64().Draw(t, "cents"),
			Small: rapid.Int8().Draw(t, "small"), Rate: rapid.Float64().Draw(t, "rate"), Wait: time.Duration(rapid.Int64().Draw(t, "wait")),
			When: time.Unix(rapid.Int64Range(0, 1e10).Draw(t, "when"), 0), Blob: rapid.SliceOf(rapid.Byte()).Draw(t, "blob"), Quoted: rapid.Int().Draw(t, "quoted"),
		}
		if rapid.Bool().Draw(t, "full") {
			by := rapid.String().Draw(t, "by")
			o.By, o.Address = &by, &Address{Street: by, Number: rapid.Uint8().Draw(t, "number")}
			o.Lines, o.Tags, o.ByNumber, o.Any = []Address{*o.Address}, map[string]string{by: by}, map[int]string{1: by}, []any{1, by}
			next := o
			o.Next = &next
		}
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := Of(reflect.TypeFor[order]()).Check(data); err != nil {
			t.Errorf("%s: %v", data, err)
		}
	})
}
