package check

import (
	"errors"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// OK ends the test if err is not nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// All returns what a sequence yields, and ends the test at its first error.
func All[T any](t testing.TB, seq iter.Seq2[T, error]) (all []T) {
	t.Helper()
	for v, err := range seq {
		OK(t, err)
		all = append(all, v)
	}
	return all
}

// Equal reports the difference between two values, if there is one. Unexported fields
// count. Times are equal if they are the same instant, and a nil slice or map differs from
// an empty one.
func Equal[T any](t testing.TB, what string, got, want T, opts ...cmp.Option) {
	t.Helper()
	opts = append(opts, cmp.Exporter(func(reflect.Type) bool { return true }))
	if cmp.Equal(got, want, opts...) {
		return
	}
	if k := reflect.ValueOf(&want).Elem().Kind(); k < reflect.Array || k == reflect.String {
		t.Errorf("%s: got %#v, want %#v", what, got, want)
		return
	}
	t.Errorf("%s (-want +got):\n%s", what, cmp.Diff(want, got, opts...))
}

// Zone is an option of Equal that has times differ that are the same instant in two zones.
var Zone = cmp.Comparer(func(a, b time.Time) bool { return a == b }) //nolint:staticcheck // it is the zone that Equal leaves out

// Error checks that err matches target, as errors.Is does, and that its text contains all of
// these. A nil target is matched by no error at all.
func Error(t testing.TB, err, target error, texts ...string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("error %v, want one that matches %v", err, target)
		return
	}
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v does not contain %q", err, text)
		}
	}
}

// ErrorOf is [Error] for the errors of a package, whose texts are one line that begins with
// its name.
func ErrorOf(t testing.TB, pkg string, err, target error, texts ...string) {
	t.Helper()
	Error(t, err, target, texts...)
	if err != nil && (strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), pkg+": ")) {
		t.Errorf("error %q is not one line that begins with %q", err, pkg+": ")
	}
}

// Eventually waits until a condition holds, and ends the test if it does not within 30
// seconds. Tests in virtual time need no wait: they let time pass.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came true that %s", what)
		}
	}
}
