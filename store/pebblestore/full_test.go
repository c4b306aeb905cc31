package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// smallDisk is a file system with room for so many bytes.
type smallDisk struct {
	*vfs.MemFS

	mu   sync.Mutex
	size int64
	told *int64 // how much room it says there is, whatever there is
}

// used returns how many bytes are taken.
func (d *smallDisk) used() int64 {
	names, err := d.MemFS.List("data")
	if err != nil {
		return 0 // there is no directory yet
	}
	var sum int64
	for _, name := range names {
		if info, err := d.MemFS.Stat(path.Join("data", name)); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// leave makes the disk as large as what is taken and so many bytes more.
func (d *smallDisk) leave(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.size, d.told = d.used()+bytes, nil
}

// pretend makes the disk say that there is so much room, whatever is written to it or
// tidied up meanwhile.
func (d *smallDisk) pretend(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.size, d.told = 1<<40, &bytes
}

// GetDiskUsage says how much room there is.
func (d *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	used := d.used()
	if d.told != nil {
		return vfs.DiskUsage{AvailBytes: uint64(*d.told), TotalBytes: uint64(d.size), UsedBytes: uint64(used)}, nil
	}
	return vfs.DiskUsage{AvailBytes: uint64(max(0, d.size-used)), TotalBytes: uint64(d.size), UsedBytes: uint64(used)}, nil
}

// Create returns a file that takes room.
func (d *smallDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.MemFS.Create(name, category)
	return &smallFile{File: f, disk: d}, err
}

// ReuseForWrite returns a file that takes room where it grows.
func (d *smallDisk) ReuseForWrite(oldName, newName string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.MemFS.ReuseForWrite(oldName, newName, category)
	return &smallFile{File: f, disk: d}, err
}

type smallFile struct {
	vfs.File
	disk *smallDisk
	at   int64
}

// Write writes what there is room for.
func (f *smallFile) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	room := max(0, f.disk.size-f.disk.used()) + info.Size() - f.at
	fits := p[:min(int64(len(p)), room)]
	n, err := f.File.Write(fits)
	f.at += int64(n)
	if err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

// ballast is records that take room, and cannot be compressed.
type ballast struct {
	rnd *rand.ChaCha8
	put int // so many are there
}

func newBallast(seed uint64) *ballast {
	var s [32]byte
	binary.LittleEndian.PutUint64(s[:], seed)
	return &ballast{rnd: rand.NewChaCha8(s)}
}

func ballastKey(n int) store.RecordKey {
	return store.RecordKey{Kind: "ballast", ID: strconv.Itoa(n)}
}

// add puts ballast until the store refuses it.
func (b *ballast) add(ctx context.Context, s *Store) error {
	for {
		body := make([]byte, 8<<10)
		_, _ = b.rnd.Read(body) // it never fails
		err := s.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: ballastKey(b.put), Body: body}}}})
		if err != nil {
			return err
		}
		b.put++
	}
}

// check reads all ballast that was acknowledged.
func (b *ballast) check(ctx context.Context, s *Store) error {
	for n := range b.put {
		if _, err := s.Get(ctx, ballastKey(n)); err != nil {
			return err
		}
	}
	return nil
}

// TestFullDisk fills the disk up to the reserve: then commits are refused, all else
// works, and the store recovers when there is room again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	ctx, seed := t.Context(), testenv.Seed(t)
	// The reserve is for what Pebble has accepted and still writes: memtables, and compactions, which
	// take as much as the tables that they merge until these are deleted. So it is larger than all
	// that is written here.
	const reserve, fill = 8 << 20, 2 << 20
	disk := &smallDisk{MemFS: vfs.NewMem(), size: reserve + fill}
	clock := base.NewManual(start)
	s, err := Open(ctx, "data", Options{Clock: clock, Logger: quiet(), fs: disk, tune: busy, limits: &tight, Reserve: reserve})
	if err != nil {
		t.Fatal(err)
	}
	load, heavy := newWorkload(clock, 4, seed), newBallast(seed)
	for round := range 3 {
		if err := heavy.add(ctx, s); !errors.Is(err, store.ErrFull) {
			t.Fatalf("round %d: commit: %v, want %v", round, err, store.ErrFull)
		}
		disk.pretend(reserve / 2)
		for _, err := range load.runAll(ctx, s, 10) {
			if !errors.Is(err, store.ErrFull) {
				t.Fatalf("round %d: commit: %v, want %v", round, err, store.ErrFull)
			}
		}
		// Nothing is there of what was refused, and what is there can be read and claimed.
		if _, err := load.verify(ctx, s, load.after(load.before())); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := heavy.check(ctx, s); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for _, w := range load.workers {
			if err := w.claim(ctx, s); err != nil {
				t.Fatalf("round %d: claim: %v", round, err)
			}
		}
		disk.leave(reserve + 3*fill)
		failOn(t, load.runAll(ctx, s, 10))
		disk.leave(reserve + fill)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFullDiskCanBeEmptied: below the reserve, commits that only finish, trim and delete
// still pass, down to a quarter of it.
func TestFullDiskCanBeEmptied(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	const reserve = 4 << 20
	disk := &smallDisk{MemFS: vfs.NewMem(), size: 1 << 40}
	s, err := Open(ctx, "data", Options{Clock: base.NewManual(start), Logger: quiet(), fs: disk, tune: small, Reserve: reserve})
	if err != nil {
		t.Fatal(err)
	}
	key := func(i int) store.Key { return store.Key{Queue: "q", Name: strconv.Itoa(i)} }
	fill := store.Tx{}
	for i := range 8 {
		fill.Put = append(fill.Put, store.Message{Key: key(i), ID: "m", Route: "r"})
		fill.Append = append(fill.Append, store.Append{Key: key(i), Entries: [][]byte{{1}, {2}}})
		fill.PutRecords = append(fill.PutRecords, store.PutRecord{Record: store.Record{Key: ballastKey(i)}})
	}
	if err := s.Commit(ctx, &fill); err != nil {
		t.Fatal(err)
	}
	claims, err := s.Claim(ctx, store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: 8, Lease: store.MaxLease})
	if err != nil || len(claims) != 8 {
		t.Fatalf("claim: %d, %v", len(claims), err)
	}
	finish := func(i int) []store.Finish {
		for _, c := range claims {
			if c.Key == key(i) {
				return []store.Finish{{Lease: store.Lease{Key: c.Key, Token: c.Token}}}
			}
		}
		t.Fatalf("%v was not claimed", key(i))
		return nil
	}
	round := 0
	freeing := func() map[string]*store.Tx {
		n := 4 * round
		round++
		return map[string]*store.Tx{
			"finish":        {Finish: finish(n)},
			"delete a key":  {DeleteKeys: []store.Key{key(n + 1)}},
			"trim":          {Trim: []store.Trim{{Key: key(n + 2), Before: 1}}},
			"delete":        {Delete: []store.MessageRef{{Key: key(n + 2), ID: "m"}}},
			"delete record": {DeleteRecords: []store.DeleteRecord{{Key: ballastKey(n), Expect: store.AnyVersion}}},
		}
	}
	growing := map[string]*store.Tx{
		"put":            {Put: []store.Message{{Key: key(100), ID: "m", Route: "r"}}},
		"append":         {Append: []store.Append{{Key: key(3), At: 2, Entries: [][]byte{{3}}}}},
		"move":           {Retime: []store.Retime{{Ref: store.MessageRef{Key: key(7), ID: "m"}, VisibleAt: start}}},
		"put record":     {PutRecords: []store.PutRecord{{Record: store.Record{Key: ballastKey(100)}}}},
		"finish and put": {Finish: finish(3), Put: []store.Message{{Key: key(100), ID: "m", Route: "r"}}},
	}
	commit := func(room int64, txs map[string]*store.Tx, want error) {
		t.Helper()
		disk.pretend(room)
		s.checkSpace()
		for name, tx := range txs {
			if err := s.Commit(ctx, tx); !errors.Is(err, want) {
				t.Errorf("%s with %d KiB left: %v, want %v", name, room>>10, err, want)
			}
		}
	}
	commit(reserve-1, growing, store.ErrFull)
	commit(reserve/freeingShare-1, freeing(), store.ErrFull)
	round = 0
	commit(reserve/freeingShare, freeing(), nil)
	commit(reserve-1, freeing(), nil)
	commit(reserve, growing, nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDiskWithoutReserve lets the disk get full in earnest, at many moments: commits
// fail, and when there is room and the store is opened again, nothing is lost.
func TestDiskWithoutReserve(t *testing.T) {
	t.Parallel()
	disks := 8
	if testenv.Long() {
		disks = 200
	}
	seed := testenv.Seed(t)
	for i := range disks {
		t.Run(fmt.Sprintf("disk %d", i), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			fs := vfs.NewCrashableMem()
			disk := &smallDisk{MemFS: fs, size: rnd.Int64N(600 << 10)}
			load := newWorkload(base.NewManual(start), 4, seed+uint64(i))
			within(t, func() string { return fmt.Sprintf("a disk of %d bytes", disk.size) }, func() {
				heavy := workUntilFull(t, load, disk)
				m := load.after(load.before())
				left := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rnd})
				if err := recoverBallast(t.Context(), left, heavy); err != nil {
					t.Errorf("after a disk of %d bytes was full: %v", disk.size, err)
				}
				if _, err := recoverFrom(t.Context(), load, crash{fs: left, moment: m}, true); err != nil {
					t.Errorf("after a disk of %d bytes was full: %v", disk.size, err)
				}
			})
		})
	}
}

// workUntilFull works until something fails, which must be for lack of room.
func workUntilFull(t *testing.T, load *workload, disk *smallDisk) *ballast {
	t.Helper()
	heavy := newBallast(uint64(disk.size))
	s, err := Open(t.Context(), "data", Options{Clock: load.clock, Logger: quiet(), fs: disk, tune: busy, limits: &tight, Reserve: 1})
	if err == nil {
		var added error
		var wg sync.WaitGroup
		wg.Go(func() { added = heavy.add(t.Context(), s) })
		errs := load.runAll(t.Context(), s, 100)
		wg.Wait()
		err = errors.Join(append(errs, added, s.Close())...)
	}
	if !errors.Is(err, store.ErrFull) && !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a disk of %d bytes: %v", disk.size, err)
	}
	if _, ok := errors.AsType[violation](err); ok {
		t.Errorf("on a disk of %d bytes: %v", disk.size, err)
	}
	return heavy
}

// recoverBallast opens what is left, and checks that the ballast is there.
func recoverBallast(ctx context.Context, left *vfs.MemFS, heavy *ballast) error {
	s, err := Open(ctx, "data", Options{Clock: base.NewManual(start), Logger: quiet(), fs: left, tune: busy, limits: &tight})
	if err != nil {
		return err
	}
	return errors.Join(heavy.check(ctx, s), s.Close())
}
