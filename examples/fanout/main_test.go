package main

import (
	"slices"
	"testing"
	"time"

	"github.com/abidehq/abide/abidetest"
)

// A thousand shops have none to nine teapots each; ten of those with nine are closed.
const stock = 100*(0+1+2+3+4+5+6+7+8+9) - 10*9

var closed = []int{99, 199, 299, 399, 499, 599, 699, 799, 899, 999}

func TestInventory(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Inventory, Count)
		env.Config.MaxActivities = 250
		begin := env.Now()
		instance := abidetest.Start(env, Inventory, Question{Item: "teapot", Shops: 1000})
		if answer := instance.Result(); answer.Stock != stock || !slices.Equal(answer.Silent, closed) {
			t.Errorf("the answer is %+v, want %d and %v", answer, stock, closed)
		}
		// A shop takes a second, and 250 are asked at the same time.
		if took := env.Now().Sub(begin); took != 4*time.Second {
			t.Errorf("it took %v, want 4s", took)
		}
	})
}

// A shop that has answered is not asked again by the next process.
func TestInventoryGoesOn(t *testing.T) {
	t.Parallel()
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		env.Register(Inventory)
		env.Config.MaxActivities = 250
		counts := abidetest.Stub(env, Count, count)
		instance := abidetest.Start(env, Inventory, Question{Item: "teapot", Shops: 1000})
		env.Advance(1500 * time.Millisecond)
		if n := counts.Calls(); n != 500 {
			t.Errorf("%d shops were asked before the restart, want 500", n)
		}
		env.Restart()
		if answer := instance.Result(); answer.Stock != stock || !slices.Equal(answer.Silent, closed) {
			t.Errorf("the answer is %+v, want %d and %v", answer, stock, closed)
		}
		if n := counts.Calls(); n != 1000 {
			t.Errorf("shops were asked %d times, want 1000", n)
		}
	})
}
