package bench

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestHistogramQuantiles(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, spread := range []time.Duration{100, time.Microsecond, time.Millisecond, time.Second, time.Minute} {
		var h Histogram
		var exact []time.Duration
		for range 10_000 {
			d := time.Duration(rng.ExpFloat64() * float64(spread))
			h.Record(d)
			exact = append(exact, d)
		}
		slices.Sort(exact)
		for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
			want := exact[min(int(q*float64(len(exact))), len(exact)-1)]
			got := h.Quantile(q)
			if off := (got - want).Abs(); off > want/32+1 {
				t.Errorf("spread %v: quantile %v is %v, want %v", spread, q, got, want)
			}
		}
		if h.Max() != exact[len(exact)-1] {
			t.Errorf("spread %v: max is %v, want %v", spread, h.Max(), exact[len(exact)-1])
		}
	}
}

func TestHistogramExtremes(t *testing.T) {
	t.Parallel()
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Max() != 0 || h.Count() != 0 {
		t.Errorf("an empty histogram has a median of %v, a max of %v and a count of %d", h.Quantile(0.5), h.Max(), h.Count())
	}
	h.Record(-time.Second)
	if h.Quantile(1) != 0 {
		t.Errorf("a negative duration counts as %v", h.Quantile(1))
	}
	h.Record(1000 * time.Hour)
	if h.Max() != 1000*time.Hour || h.Count() != 2 {
		t.Errorf("max is %v and count %d after a very long duration", h.Max(), h.Count())
	}
}

func TestHistogramMerge(t *testing.T) {
	t.Parallel()
	var all, odd, even Histogram
	all.Merge(&odd)
	for i := range 1000 {
		d := time.Duration(i) * time.Microsecond
		all.Record(d)
		if i%2 == 0 {
			even.Record(d)
		} else {
			odd.Record(d)
		}
	}
	even.Merge(&odd)
	if even.Count() != all.Count() || even.Max() != all.Max() || even.Quantile(0.5) != all.Quantile(0.5) || even.Quantile(0.99) != all.Quantile(0.99) {
		t.Error("two halves merged differ from the whole")
	}
}

func TestProcCounts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "status")
	text := "Name:\tabide\nVmHWM:\t  2048 kB\nwrite_bytes: 12\nnothing\nempty:\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := procCounts(path)
	if len(got) != 2 || got["VmHWM"] != 2048 || got["write_bytes"] != 12 {
		t.Errorf("got %v", got)
	}
	if got := procCounts(filepath.Join(t.TempDir(), "absent")); len(got) != 0 {
		t.Errorf("a file that does not exist has %v", got)
	}
}

func TestWrittenPrefersTheDisk(t *testing.T) {
	t.Parallel()
	later, earlier := written{disk: 300, calls: 500}, written{disk: 100, calls: 100}
	if n, source := later.minus(earlier).best(); n != 200 || source != "write_bytes" {
		t.Errorf("got %d by %s", n, source)
	}
	later.disk = 100
	if n, source := later.minus(earlier).best(); n != 400 || source != "wchar" {
		t.Errorf("got %d by %s", n, source)
	}
}
