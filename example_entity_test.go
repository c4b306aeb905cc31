package abide_test

import (
	"context"
	"fmt"
	"log"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store/memstore"
)

// CartState is the state of a cart.
type CartState struct{ Pieces int }

// A cart is a durable object: each customer has one, and its operations run one after the other.
var (
	Cart     = abide.NewEntity[CartState]("cart")
	AddPiece = abide.NewOperation(Cart, "add", addPiece)
	Checkout = abide.NewOrchestration("checkout", checkout)
)

func addPiece(_ abide.EntityContext, cart *CartState, n int) (int, error) {
	cart.Pieces += n
	return cart.Pieces, nil
}

// checkout adds a gift to a cart, and returns how many pieces there are.
func checkout(ctx abide.Context, customer string) (int, error) {
	return AddPiece.Call(ctx, customer, 1)
}

func ExampleEntity() {
	store := memstore.New(memstore.Options{})
	defer store.Close()
	engine, err := abide.New(store, abide.Config{Register: []abide.Definition{Cart, Checkout}})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	ctx := context.Background()

	if err := AddPiece.Send(ctx, engine, "customer-7", 2); err != nil { // which does not wait
		log.Fatal(err)
	}
	instance, err := Checkout.Start(ctx, engine, "customer-7")
	if err != nil {
		log.Fatal(err)
	}
	pieces, err := instance.Result(ctx)
	if err != nil {
		log.Fatal(err)
	}
	cart, ok, err := Cart.Get(ctx, engine, "customer-7")
	fmt.Println(pieces, cart.Pieces, ok, err)
	// Output: 3 3 true <nil>
}

func ExampleLock() {
	swap := abide.NewOrchestration("swap", func(ctx abide.Context, customers [2]string) (abide.None, error) {
		unlock, err := abide.Lock(ctx, Cart.ID(customers[0]), Cart.ID(customers[1]))
		if err != nil {
			return abide.None{}, err
		}
		defer unlock()
		if _, err := AddPiece.Call(ctx, customers[0], -1); err != nil {
			return abide.None{}, err
		}
		_, err = AddPiece.Call(ctx, customers[1], 1) // no other operation has seen one cart without the other
		return abide.None{}, err
	})
	fmt.Println(swap.Name())
	// Output: swap
}
