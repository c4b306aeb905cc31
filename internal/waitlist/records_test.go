package waitlist_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/waitlist"
)

func TestReadersAreToldTheLatest(t *testing.T) {
	t.Parallel()
	records := waitlist.Records[string, *waitlist.Reader[int]]{}
	one, two := waitlist.NewReader[int](), waitlist.NewReader[int]()
	records.Join("a", &one)
	records.Join("a", &two)
	for i := range 3 {
		for _, r := range records.Of("a") {
			r.Tell(i + 1)
		}
	}
	if news := <-one.News; news != 3 {
		t.Errorf("one was told %d", news)
	}
	if news, ok := two.Untold(); !ok || news != 3 {
		t.Errorf("the other was told %d, %v", news, ok)
	}
	if _, ok := two.Untold(); ok {
		t.Error("news was taken back twice")
	}
	if !slices.Contains(records.All(), &two) || len(records.Of("b")) != 0 {
		t.Errorf("readers: %v", records)
	}
	records.Leave("a", &one)
	records.Leave("a", &two)
	records.Leave("a", &two)
	if len(records) != 0 {
		t.Errorf("left: %v", records)
	}
}

// TestAlarmIsNeverLate sets an alarm for later and for earlier times.
func TestAlarmIsNeverLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		rang := make(chan time.Duration, 10)
		alarm := waitlist.NewAlarm(base.System{}, func() { rang <- time.Since(start) })
		set := func(d time.Duration) { alarm.Set(start.Add(d), time.Until(start.Add(d))) }
		set(5 * time.Second)
		set(9 * time.Second)
		set(2 * time.Second)
		if at := <-rang; at != 2*time.Second {
			t.Errorf("it went off after %v", at)
		}
		alarm.Rung()
		set(9 * time.Second)
		alarm.Stop()
		set(20 * time.Second)
		if at := <-rang; at != 20*time.Second {
			t.Errorf("it went off after %v", at)
		}
	})
}
