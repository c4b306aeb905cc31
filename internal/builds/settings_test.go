package builds

import (
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func example() Settings {
	return Settings{Version: 3, Builds: []Build{
		{ID: "4f2a", Percent: 10, Since: noon, Routes: []string{"order", "order@2"}},
		{ID: "8d03", Percent: Unset, Drained: true, Since: noon.Add(time.Hour)},
	}}
}

// TestFormat: what is written stays readable, and so does what a later release adds to a build.
func TestFormat(t *testing.T) {
	t.Parallel()
	const golden = "0102" + "1c" + "0434663261" + "02" + "0a" + "809494caca33" + "02056f72646572076f726465724032" + "0e" + "0438643033" + "01" + "00" + "80f1efcbca33" + "00"
	s := example()
	if got := hex.EncodeToString(s.encode()); got != golden {
		t.Errorf("written as %s, want %s", got, golden)
	}
	got, err := parse(store.Record{Version: 3, Body: s.encode()})
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("read %+v, %v", got, err)
	}
	if _, err := parse(store.Record{Body: []byte{2}}); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("of another format: %v", err)
	}
	body := s.encode()
	for n := range body {
		if _, err := parse(store.Record{Body: body[:n]}); err == nil {
			t.Errorf("%d of %d bytes are read", n, len(body))
		}
	}
}

func TestChange(t *testing.T) {
	t.Parallel()
	s := memstore.New(memstore.Options{})
	defer s.Close()
	if got, err := Read(t.Context(), s); err != nil || len(got.Builds) != 0 {
		t.Errorf("in an empty store: %+v, %v", got, err)
	}
	for i := range Most + 5 {
		id := fmt.Sprintf("b-%04d", i)
		_, err := Change(t.Context(), s, func(s *Settings) (bool, error) {
			b := s.Add(id, noon.Add(time.Duration(i)*time.Second))
			b.Drained = i == 1
			return true, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := Await(t.Context(), s, 5)
	if err != nil || len(got.Builds) != Most {
		t.Fatalf("%d builds, %v", len(got.Builds), err)
	}
	if got.Find("b-0000") != nil || !got.Drained("b-0001") || got.Find("b-0002") != nil || got.Find("b-1004") == nil {
		t.Error("other builds than the oldest for which nothing is set were forgotten")
	}
	oops := errors.New("oops")
	if _, err := Change(t.Context(), s, func(*Settings) (bool, error) { return true, oops }); !errors.Is(err, oops) {
		t.Error(err)
	}
}

// TestChoose: 10,000 instances are divided as they should be, and each is always in the same place.
func TestChoose(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		settings []Build
		own      string
		live     []string
		want     map[string]int // in percent
	}{
		{"nothing set", nil, "a", []string{"a", "b"}, map[string]int{"a": 100}},
		{"a share", []Build{{ID: "b", Percent: 10}}, "a", []string{"a", "b"}, map[string]int{"a": 90, "b": 10}},
		{"a share of its own", []Build{{ID: "b", Percent: 10}}, "b", []string{"a", "b"}, map[string]int{"a": 90, "b": 10}},
		{"of one that is gone", []Build{{ID: "b", Percent: 10}}, "a", []string{"a"}, map[string]int{"a": 100}},
		{"of the only one", []Build{{ID: "b", Percent: 10}}, "b", []string{"b"}, map[string]int{"b": 100}},
		{"of all", []Build{{ID: "a", Percent: 10}, {ID: "b", Percent: 30}}, "a", []string{"a", "b"}, map[string]int{"a": 25, "b": 75}},
		{"nothing", []Build{{ID: "a", Percent: 0}}, "a", []string{"a", "b"}, map[string]int{"b": 100}},
		{"nothing for the only one", []Build{{ID: "a", Percent: 0}}, "a", []string{"a"}, map[string]int{"a": 100}},
		{"drained", []Build{{ID: "a", Percent: Unset, Drained: true}}, "a", []string{"a", "b"}, map[string]int{"b": 100}},
		{"drained, two others", []Build{{ID: "a", Percent: Unset, Drained: true}}, "a", []string{"a", "b", "c"}, map[string]int{"b": 50, "c": 50}},
		{"drained with a share", []Build{{ID: "a", Percent: 50, Drained: true}}, "a", []string{"a", "b"}, map[string]int{"b": 100}},
		{"all drained", []Build{{ID: "a", Percent: Unset, Drained: true}, {ID: "b", Percent: Unset, Drained: true}}, "a", []string{"a", "b"}, map[string]int{"a": 100}},
	} {
		s := Settings{Builds: tt.settings}
		got := map[string]int{}
		const n = 10_000
		for i := range n {
			id := fmt.Sprintf("order-%d", i)
			b := s.Choose("acme", id, tt.own, tt.live)
			if again := s.Choose("acme", id, tt.own, tt.live); again != b {
				t.Errorf("%s: %s is of %s and of %s", tt.name, id, b, again)
			}
			got[b]++
		}
		for b, percent := range tt.want {
			if off := got[b] - percent*n/100; off < -n/50 || off > n/50 {
				t.Errorf("%s: %v of %d, want %v in percent", tt.name, got, n, tt.want)
			}
			delete(got, b)
		}
		if len(got) > 0 {
			t.Errorf("%s: also %v", tt.name, got)
		}
	}
}

func TestShares(t *testing.T) {
	t.Parallel()
	s := Settings{Builds: []Build{{ID: "a", Percent: 60}, {ID: "b", Percent: 40}, {ID: "c", Percent: 10, Drained: true}}}
	if err := s.CheckShares(); err != nil {
		t.Error(err)
	}
	s.Builds[0].Percent++
	if s.CheckShares() == nil {
		t.Error("101 percent are allowed")
	}
}
