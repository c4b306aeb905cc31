// Command saga books a trip part by part. When a part cannot be had, it cancels what it
// has booked, the latest first.
//
//	go run ./examples/saga
package main

import (
	"context"
	"fmt"
	"log"
	"slices"

	"github.com/abidehq/abide"

	_ "github.com/abidehq/abide/store/pebblestore" // the embedded store
)

var (
	Trip   = abide.NewOrchestration("trip", trip)
	Book   = abide.NewActivity("book", book)
	Cancel = abide.NewActivity("cancel", cancel)

	ErrSoldOut = abide.NewError("sold-out", "sold out")
)

// trip books all parts, or none, and returns the bookings.
func trip(ctx abide.Context, parts []string) ([]string, error) {
	var bookings []string
	err := abide.RunSaga(ctx, func(saga *abide.Saga) error {
		for _, part := range parts {
			booking, err := Book.Call(ctx, part)
			if err != nil {
				return err
			}
			saga.Undo(func(ctx abide.Context) error {
				_, err := Cancel.Call(ctx, booking, abide.Retry(0)) // until it succeeds
				return err
			})
			bookings = append(bookings, booking)
		}
		return nil
	})
	return bookings, err
}

func book(_ context.Context, part string) (string, error) {
	if !slices.Contains([]string{"flight", "hotel", "car"}, part) {
		return "", abide.Final(fmt.Errorf("%s: %w", part, ErrSoldOut)) // asking again is of no use
	}
	fmt.Println("booked the", part)
	return "the " + part, nil
}

func cancel(_ context.Context, booking string) (abide.None, error) {
	fmt.Println("cancelled", booking)
	return abide.None{}, nil
}

func main() {
	ctx := context.Background()
	engine, err := abide.Open(ctx, abide.Config{Register: []abide.Definition{Trip, Book, Cancel}})
	check(err)
	defer engine.Close()
	instance, err := Trip.Start(ctx, engine, []string{"flight", "hotel", "balloon"})
	check(err)
	bookings, err := instance.Result(ctx)
	check(err)
	fmt.Println(bookings)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
