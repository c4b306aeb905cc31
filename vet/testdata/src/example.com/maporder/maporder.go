// Package maporder has the order of maps in orchestration code.
package maporder

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strings"
	"time"

	xmaps "golang.org/x/exp/maps"

	"github.com/abidehq/abide"
)

type item struct {
	price float64
	count int
	tags  []string
	at    time.Time
}

var charge = abide.NewActivity[string, int]("charge", nil)

var errBad = errors.New("bad")

func decisions(ctx abide.Context, m map[string]int) (int, error) {
	for k := range m { // want `^iteration over a map in random order calls charge.Call for each element \(line 32\): iterate over slices.Sorted\(maps.Keys\(m\)\) \(in decisions, which takes an abide.Context\)$`
		if _, err := charge.Call(ctx, k); err != nil {
			continue
		}
	}
	futures := map[string]*abide.Future[int]{}
	for k := range m { // want `in random order calls charge.Go for each element \(line 38\)`
		futures[k] = charge.Go(ctx, k, abide.Named(k))
	}
	for _, f := range futures { // want `in random order calls f.Cancel for each element`
		f.Cancel(ctx)
	}
	_ = abide.RunSaga(ctx, func(saga *abide.Saga) error {
		for range m { // want `in random order calls saga.Undo for each element`
			saga.Undo(nil)
		}
		return nil
	})
	wait := func(d int) { _ = abide.Sleep(ctx, time.Duration(d)) }
	for _, v := range m { // want `in random order calls wait for each element`
		wait(v)
	}
	for range maps.Keys(m) { // want `in random order calls abide.NewID for each element`
		_ = abide.NewID(ctx)
	}
	for k := range m { // want `in random order calls abide.Sleep for each element`
		func() { _ = abide.Sleep(ctx, time.Duration(len(k))) }()
	}

	// Looking is no decision, and one key is no order.
	seen := map[string]time.Time{}
	for k := range m {
		seen[k] = abide.Now(ctx)
		abide.Logger(ctx).Info("seen", "key", k)
	}
	for k := range m {
		if k == "only" {
			_ = abide.Sleep(ctx, 1)
		}
	}
	later := map[string]func(){}
	for k := range m {
		later[k] = func() { _ = abide.Sleep(ctx, 1) }
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		_, _ = charge.Call(ctx, k)
	}
	return 0, nil
}

type holder struct{ keys []string }

func collecting(_ abide.Context, m map[string]int) (result []string) {
	var unsorted []string
	for k := range m { // want `in random order fills unsorted, which is not sorted before it is used \(line 86\)`
		unsorted = append(unsorted, k)
	}
	_ = strings.Join(unsorted, ",")

	var late []string
	for k := range m { // want `in random order fills late, which is not sorted`
		late = append(late, k)
	}
	_ = late[0]
	slices.Sort(late)

	h := &holder{}
	for k := range m { // want `in random order fills h.keys, which is not sorted`
		h.keys = append(h.keys, k)
	}
	for k := range m { // want `in random order fills result, which is not sorted`
		result = append(result, k)
	}
	filled := make([]string, len(m))
	i := 0
	for k := range m { // want `in random order fills filled, which is not sorted`
		filled[i] = k
		i++
	}
	filled[0] = "x"
	_ = filled[0]
	byCount := map[int][]string{}
	for k, v := range m { // want `in random order fills byCount, which is not sorted`
		byCount[v] = append(byCount[v], k)
	}
	_ = byCount[1][0]
	return
}

func sorting(_ abide.Context, m map[string]int, items map[string]item) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	if len(keys) == 0 || keys == nil {
		return nil
	}
	for k := range items {
		keys = append(keys, k)
	}
	sort.Strings(keys)

	filled := make([]string, len(m))
	i := 0
	for k := range m {
		filled[i] = k
		i++
	}
	filled[0] = "x"
	for k := range items {
		filled[i] = k
		i++
	}
	slices.SortFunc(filled, strings.Compare)

	var all []item
	for _, v := range items {
		if v.count > 0 {
			all = append(all, v)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].at.Before(all[j].at) })

	h := holder{}
	for k := range m {
		h.keys = append(h.keys, k)
	}
	sortKeys(h.keys)

	byCount := map[int][]string{}
	for k, v := range m {
		byCount[v] = append(byCount[v], k)
	}
	for _, group := range byCount {
		slices.Sort(group)
	}
	byKey := map[string][]int{}
	for k, v := range m {
		byKey[k] = append(byKey[k], v)
	}
	_ = byKey["a"][0]
	var dropped []string
	for k := range m {
		dropped = append(dropped, k)
	}
	dropped = nil
	_ = strings.Join(dropped, "")
	var unused []string
	for k := range m {
		unused = append(unused, k)
	}
	var sorted []string
	for k := range m {
		sorted = append(sorted, k)
	}
	return slices.Sorted(slices.Values(sorted))
}

func sortKeys(keys []string) { slices.Sort(keys) }

func leaving(_ abide.Context, m map[string]int, want string) (string, error) {
	for k, v := range m { // want `in random order returns a value that depends on which element it meets first \(line \d+\)`
		if v > 3 {
			return k, nil
		}
	}
	for k, v := range m { // want `in random order returns a value`
		if v < 0 {
			return "", fmt.Errorf("%s is negative", k)
		}
	}
	var first string
	for k := range m { // want `in random order keeps in first a value that depends on which element it meets last`
		first = k
		break
	}
	some := map[string]bool{}
	for k := range m { // want `in random order stops after some of the elements`
		some[k] = true
		if len(some) == 3 {
			break
		}
	}
outer:
	for range 3 {
		for k := range m { // want `in random order stops after some of the elements`
			some[k] = true
			continue outer
		}
	}
	for k := range m { // want `in random order panics with a value`
		panic(k)
	}
	var k string
	for k = range m { // want `in random order keeps the element it meets last`
	}
	_ = k

	// Any element will do for these.
	for _, v := range m {
		if v < 0 {
			return "", errBad
		}
	}
	found := false
	for _, v := range m {
		if v == 3 {
			found = true
			break
		}
	}
	for k, v := range m {
		if k == want && v > 0 {
			return fmt.Sprint(k, v), nil
		}
	}
	if len(m) == 1 {
		for k := range m {
			return k, nil
		}
	}
	for k := range m {
		switch k {
		case "a":
			first = k
		case "b":
			some[k] = found
		}
	}
all:
	for k := range m {
		for range 3 {
			some[k] = true
			break
		}
	inner:
		for range 3 {
			for range 3 {
				break inner
			}
		}
		switch {
		case k == "":
			break
		case k == "x":
			continue all
		}
	}
	return first, nil
}

func folding(_ abide.Context, m map[string]int, items map[string]item) (int, error) {
	text := ""
	for k := range m { // want `in random order builds the string text`
		text += k
	}
	var b strings.Builder
	for k := range m { // want `in random order writes to b for each element`
		b.WriteString(k)
	}
	for k := range m { // want `in random order writes to b for each element`
		fmt.Fprintf(&b, "%s", k)
	}
	total := 0.0
	for _, v := range items { // want `in random order adds floating-point numbers to total`
		total += v.price
	}
	for _, v := range items { // want `in random order adds floating-point numbers to total`
		total = total + v.price
	}
	quotient := 1000
	for _, v := range m { // want `in random order divides quotient`
		quotient /= v
	}
	number, ids := 0, map[string]int{}
	for k := range m { // want `in random order (numbers the elements of ids|keeps)`
		number++
		ids[k] = number
	}
	best, bestKey := 0, ""
	for k, v := range m { // want `in random order keeps in bestKey a value`
		if v > best {
			best, bestKey = v, k
		}
	}
	state := ""
	for _, v := range m { // want `in random order gives state different values`
		if v > 3 {
			state = "high"
		} else {
			state = "low"
		}
	}
	_, _ = bestKey, state
	one := map[string]int{}
	for _, v := range m { // want `in random order keeps in one\["x"\] a value`
		one["x"] = v
	}

	// These are the same in any order.
	sum, bits, count, ok, some := 0, 0, 0, true, false
	inverse, copied, set := map[int]string{}, map[string]int{}, map[string]struct{}{}
	for k, v := range m {
		sum += v * len(k)
		bits |= v
		count++
		sum = sum + v
		ok = ok && v > 0
		some = some || v > 3
		inverse[v] = k
		copied[k] = v
		copied["total"] += v
		set[k] = struct{}{}
		delete(m, k)
		var local strings.Builder
		local.WriteString(k)
		parts := []string{k}
		parts = append(parts, "x")
		_ = parts
	}
	perKey := map[string]float64{}
	for k, v := range items {
		perKey[k] += v.price
	}
	slots := make([]int, 10)
	for _, v := range m {
		slots[v] = v
	}
	_ = slots[0]
	largest, smallest, oldest := 0, 0, time.Time{}
	winner, votes := "", 0
	for k, v := range m {
		largest = max(largest, v)
		if v < smallest {
			smallest = v
		}
		if v > votes || v == votes && k < winner {
			winner, votes = k, v
		}
	}
	for _, v := range items {
		if v.at.Before(oldest) {
			oldest = v.at
		}
	}
	for range m {
		text += "."
	}
	return largest + smallest + sum + bits, nil
}

func functions(_ abide.Context, m map[string]int) []string {
	_ = strings.Join(slices.Collect(maps.Keys(m)), ",") // want `maps.Keys returns the elements in random order, and they are not sorted before they are used: use slices.Sorted\(maps.Keys\(m\)\)`
	values := slices.Collect(maps.Values(m))            // want `maps.Values returns the elements in random order`
	_ = values[0]
	old := xmaps.Keys(m) // want `xmaps.Keys returns the elements in random order`
	_ = old[0]
	for _, v := range reflect.ValueOf(m).MapKeys() { // want `in random order returns a value`
		return []string{v.String()}
	}
	_ = reflect.ValueOf(m).MapRange() // want `reflect.Value.MapRange has the random order of a map`
	var total string
	for k, v := range maps.All(m) { // want `in random order builds the string total`
		total += fmt.Sprint(k, v)
	}
	for v := range maps.Values(m) { // want `in random order returns a value`
		if v == 3 {
			return []string{fmt.Sprint(v)}
		}
	}
	seq := maps.Keys(m)
	for k := range seq { // want `in random order returns a value`
		return []string{k}
	}

	sorted := slices.Sorted(maps.Keys(m))
	_ = slices.SortedFunc(maps.Values(m), func(a, b int) int { return a - b })
	collected := slices.Collect(maps.Keys(m))
	slices.Sort(collected)
	sorted = append(sorted, collected...)
	elder := xmaps.Keys(m)
	sort.Strings(elder)
	_ = maps.Collect(maps.All(m))
	_ = len(slices.Collect(maps.Keys(m)))
	count := 0
	for range maps.Keys(m) {
		count++
	}
	again := maps.Keys(m)
	for range again {
		count++
	}
	return sorted
}

func generic[N int | float64](_ abide.Context, m map[string]N) (sum N) {
	for _, v := range m { // want `in random order adds to sum, which may depend on the order`
		sum += v
	}
	return sum
}

// nobody is not called by an orchestration.
func nobody(m map[string]int) string {
	for k := range m {
		return k
	}
	return ""
}
