// Command fanout asks a thousand shops at the same time how many teapots they have, and
// adds up the answers. Shops that do not answer are listed.
//
//	go run ./examples/fanout
//
// Stop it halfway and start it again: shops that have answered are not asked again.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/abidehq/abide"

	_ "github.com/abidehq/abide/store/pebblestore" // the embedded store
)

// Question is what all shops are asked.
type Question struct {
	Item  string
	Shops int
}

// Answer is what they say, taken together.
type Answer struct {
	Stock  int
	Silent []int // shops that did not answer
}

// Visit is one shop that is asked.
type Visit struct {
	Item string
	Shop int
}

var (
	Inventory = abide.NewOrchestration("inventory", inventory)
	Count     = abide.NewActivity("count", count)

	ErrClosed = abide.NewError("closed", "the shop is closed")
)

func inventory(ctx abide.Context, q Question) (Answer, error) {
	counts := make([]*abide.Future[int], q.Shops)
	for shop := range counts {
		counts[shop] = Count.Go(ctx, Visit{Item: q.Item, Shop: shop})
	}
	var answer Answer
	for shop, c := range counts {
		n, err := c.Get(ctx)
		if err != nil {
			answer.Silent = append(answer.Silent, shop)
			continue
		}
		answer.Stock += n
	}
	return answer, abide.Cause(ctx) // an inventory that was cancelled is none
}

// count asks one shop. Every hundredth is closed, and asking again would not open it.
func count(ctx context.Context, v Visit) (int, error) {
	select {
	case <-time.After(time.Second): // a shop takes its time
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if v.Shop%100 == 99 {
		return 0, abide.Final(ErrClosed)
	}
	return v.Shop % 10, nil
}

func main() {
	ctx := context.Background()
	engine, err := abide.Open(ctx, abide.Config{Register: []abide.Definition{Inventory, Count}})
	check(err)
	defer engine.Close()
	instance, err := Inventory.Start(ctx, engine, Question{Item: "teapot", Shops: 1000}, abide.ID("inventory-1"))
	check(err)
	answer, err := instance.Result(ctx)
	check(err)
	fmt.Printf("%d teapots; no answer from shops %v\n", answer.Stock, answer.Silent)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
