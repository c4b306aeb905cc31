// Package pointer has addresses in orchestration code.
package pointer

import (
	"fmt"
	"reflect"

	"github.com/abidehq/abide"
)

func show(ctx abide.Context, in *int) (string, error) {
	_ = fmt.Sprintf("%p", in)                // want `the format %p depends on an address in memory: use a name or an ID of the value \(in show, which takes an abide.Context\)`
	_ = fmt.Errorf("at %s: %#016p", "x", in) // want `the format %p depends on`
	_ = reflect.ValueOf(in).Pointer()        // want `reflect.Value.Pointer depends on an address`
	_ = fmt.Sprintf("%d %%%p", *in, in)      // want `the format %p depends on`
	_ = fmt.Sprintf("%%p %d%%", *in)
	_ = fmt.Sprint("%p")
	return fmt.Sprintf("%d points", *in), nil
}
