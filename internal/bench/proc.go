package bench

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// Where Linux says what a process uses. Elsewhere these files do not exist, and the
// figures that need them are left out.
const (
	procIO     = "/proc/self/io"
	procStatus = "/proc/self/status"
)

// written is how many bytes the process has written so far: to the disk, and by
// system calls, which counts also what never reaches a disk. A count that is not
// known is zero.
type written struct {
	disk, calls int64
}

func bytesWritten() written {
	counts := procCounts(procIO)
	return written{disk: counts["write_bytes"], calls: counts["wchar"]}
}

// minus returns what was written since an earlier time.
func (w written) minus(earlier written) written {
	return written{disk: w.disk - earlier.disk, calls: w.calls - earlier.calls}
}

func (w written) plus(other written) written {
	return written{disk: w.disk + other.disk, calls: w.calls + other.calls}
}

// best returns the count to report and where it comes from. Some file systems do not
// count what reaches the disk; then what was asked for is the next best.
func (w written) best() (n int64, source string) {
	if w.disk > 0 {
		return w.disk, "write_bytes"
	}
	return w.calls, "wchar"
}

const mib = 1 << 20

// memory returns how much of the process is in memory, now and at its peak, in MiB. A
// size that is not known is zero.
func memory() (now, peak float64) {
	counts := procCounts(procStatus) // in KiB
	return float64(counts["VmRSS"]<<10) / mib, float64(counts["VmHWM"]<<10) / mib
}

// procCounts returns the numbers in a file with a name and a number in each line.
func procCounts(path string) map[string]int64 {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	counts := map[string]int64{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, rest, ok := strings.Cut(lines.Text(), ":")
		fields := strings.Fields(rest)
		if !ok || len(fields) == 0 {
			continue
		}
		if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			counts[name] = n
		}
	}
	return counts
}
