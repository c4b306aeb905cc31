// Command crash makes a pot of tea. Kill it at any moment and run it again: it
// continues where it stopped.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/abidehq/abide"

	_ "github.com/abidehq/abide/store/pebblestore" // the embedded store
)

var Tea = abide.NewOrchestration("tea", func(ctx abide.Context, guest string) (string, error) {
	for _, what := range []string{"boil the water", "warm the pot", "pour the tea"} {
		if _, err := Do.Call(ctx, what); err != nil {
			return "", err
		}
		if err := abide.Sleep(ctx, 2*time.Second); err != nil {
			return "", err
		}
	}
	return "tea is ready for " + guest, nil
})

var Do = abide.NewActivity("do", func(_ context.Context, what string) (abide.None, error) {
	fmt.Println(time.Now().Format(time.TimeOnly), what)
	return abide.None{}, nil
})

func main() {
	ctx := context.Background()
	engine, err := abide.Open(ctx, abide.Config{Register: []abide.Definition{Tea, Do}}) // on disk, in ./abide-data
	check(err)
	defer engine.Close()
	pot, err := Tea.Start(ctx, engine, "the guest", abide.ID("pot-1")) // the second time, it is the same pot
	check(err)
	result, err := pot.Result(ctx)
	check(err)
	fmt.Println(time.Now().Format(time.TimeOnly), result)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
