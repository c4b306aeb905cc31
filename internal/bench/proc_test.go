package bench

import (
	"os"
	"path/filepath"
	"testing"
)

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
