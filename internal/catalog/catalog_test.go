package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/schema"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

type order struct{ Cents int }

var (
	number = schema.Of(reflect.TypeFor[int]())
	orders = schema.Of(reflect.TypeFor[order]())
	noon   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func of(route, build string, input *schema.Schema) Signature {
	return Signature{Name: Name{Route: route}, Build: build, Input: input, Result: number}
}

// TestRecordIsGolden: signatures live as long as the store.
func TestRecordIsGolden(t *testing.T) {
	t.Parallel()
	s := of("order@2", "4f2a9c1", orders)
	s.At, s.Events = noon, map[string]*schema.Schema{"paid": number}
	before := of("order@2", "8d03e77", number)
	w, err := put(s.Name, []Signature{s, before}, 7)
	check.OK(t, err)
	check.Golden(t, "testdata/record_1.txt", fmt.Sprintf("%s\n%s\n", w.Record.Key.ID, w.Record.Body))
	got, err := parse(&w.Record)
	check.OK(t, err)
	again, err := put(s.Name, got, 7)
	check.OK(t, err)
	check.Equal(t, "written again", string(again.Record.Body), string(w.Record.Body))
	if _, err := parse(&store.Record{Key: store.RecordKey{Kind: Kind, ID: "x/y"}}); err == nil {
		t.Error("a record of another kind was read")
	}
}

// TestMerge: a build that is published comes first, keeps the events that others of it have learned, and
// makes the oldest build go.
func TestMerge(t *testing.T) {
	t.Parallel()
	var all []Signature
	for i := range 2 * MaxBuilds {
		s := of("order", fmt.Sprint("b", i), number)
		var changed bool
		all, changed = merge(&s, all)
		check.Equal(t, "changed", changed, true)
	}
	check.Equal(t, "builds", len(all), MaxBuilds)
	last := all[0]
	if _, changed := merge(&last, all); changed {
		t.Error("what is there was put again")
	}
	all[0].Events = map[string]*schema.Schema{"paid": number}
	if _, changed := merge(&last, all); changed {
		t.Error("a process that has learned less changed it")
	}
	last.Events = map[string]*schema.Schema{"sent": number}
	merged, changed := merge(&last, all)
	check.Equal(t, "changed", changed, true)
	check.Equal(t, "events", len(merged[0].Events), 2)
	back := all[3]
	merged, changed = merge(&back, all)
	check.Equal(t, "changed by a build that is rolled back to", changed, true)
	check.Equal(t, "first", merged[0].Build, back.Build)
	check.Equal(t, "builds", len(merged), MaxBuilds)
}

// TestPublish: what a process serves can be read by others, once it is published and once it has learned
// more; several processes that publish at once lose nothing.
func TestPublish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.Options{})
		defer s.Close()
		log := slog.New(slog.DiscardHandler)
		ctx, cancel := context.WithCancel(t.Context())
		reader := New(s, base.System{}, nil)
		none, err := reader.Get(ctx, Name{Route: "order"})
		check.OK(t, err)
		check.Equal(t, "signatures before", len(none), 0)
		var all sync.WaitGroup
		var books []*Catalog
		for i := range 5 {
			c := New(s, base.System{}, []Signature{of("order", fmt.Sprint("b", i), orders), of(fmt.Sprint("own", i), "", nil)})
			books = append(books, c)
			all.Go(func() { <-c.Run(ctx, log) })
		}
		synctest.Wait()
		got, err := reader.Get(ctx, Name{Route: "order"}) // a miss is looked up again at once
		check.OK(t, err)
		check.Equal(t, "builds", len(got), 5)
		check.Equal(t, "input", string(got[0].Input.JSON()), string(orders.JSON()))
		books[2].Learn("order", "paid", number)
		books[2].Learn("order", "paid", number)
		books[2].Learn("unknown", "paid", number)
		<-time.After(fresh + time.Second)
		got, err = reader.Get(ctx, Name{Route: "order"})
		check.OK(t, err)
		check.Equal(t, "build of the process that has learned", got[0].Build, "b2")
		id := ID(number)
		if s := EventSchema(got, "paid", id); s == nil || s.Check([]byte(`"x"`)) == nil {
			t.Errorf("the event is %v", s)
		}
		if s := EventSchema(got, "paid", "other"); s != nil {
			t.Errorf("another schema of the event is %v", s)
		}
		list, err := reader.All(ctx)
		check.OK(t, err)
		check.Equal(t, "all", len(list), 10)
		check.Equal(t, "first", list[0].Route, "order")
		cancel()
		all.Wait()
	})
}

// TestPublishedOnce: a process that starts again with the same build writes nothing.
func TestPublishedOnce(t *testing.T) {
	t.Parallel()
	s := memstore.New(memstore.Options{})
	defer s.Close()
	var versions []int64
	for range 3 {
		c := New(s, base.System{}, []Signature{of("order", "b", orders)})
		check.OK(t, c.Publish(t.Context()))
		r, err := s.Get(t.Context(), Name{Route: "order"}.key())
		check.OK(t, err)
		versions = append(versions, r.Version)
	}
	if versions[0] != versions[2] {
		t.Errorf("the versions of the record are %v", versions)
	}
}

// TestSchemaIsTheSameAfterTheStore: its ID does not change when it is read.
func TestSchemaIsTheSameAfterTheStore(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(orders)
	check.OK(t, err)
	again, err := schema.Parse(data)
	check.OK(t, err)
	check.Equal(t, "ID", ID(again), ID(orders))
}
