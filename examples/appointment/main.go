// Command appointment makes an appointment and keeps it, whatever happens to the
// process in between.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/abidehq/abide/store"
	_ "github.com/abidehq/abide/store/pebblestore" // opens pebble:// URLs
)

func main() {
	ctx := context.Background()
	s, err := store.Open(ctx, "pebble://./appointments-data")
	check(err)
	defer s.Close()

	tea := store.Key{Queue: "appointments", Name: "tea"}
	past, err := s.ReadLog(ctx, tea, 0) // what has happened
	check(err)
	if past.Length > 0 {
		fmt.Printf("%s, so there is nothing to wait for\n", past.Entries[0])
		return
	}

	pending, err := s.Pending(ctx, tea, 1) // what will happen
	check(err)
	if len(pending) == 0 {
		at := time.Now().Add(10 * time.Second)
		check(s.Commit(ctx, &store.Tx{Put: []store.Message{{Key: tea, ID: "1", Route: "kettle", VisibleAt: at}}}))
		fmt.Println("appointment made for", at.Format(time.TimeOnly))
	} else {
		fmt.Println("found appointment from before")
	}

	// Nobody sees the message before its time; Claim waits for it.
	claims, err := s.Claim(ctx, store.ClaimRequest{
		Queue: "appointments", Routes: []string{"kettle"}, Max: 1, Lease: time.Minute, Wait: time.Hour,
	})
	check(err)
	for _, c := range claims {
		late := c.Now.Sub(c.Messages[0].VisibleAt)
		kept := fmt.Sprintf("kept at %s (%d ms late)", c.Now.Local().Format(time.TimeOnly), late.Milliseconds())
		check(s.Commit(ctx, &store.Tx{ // consumes the message and notes that it happened, together
			Finish: []store.Finish{{Lease: c.Lease()}},
			Append: []store.Append{{Key: tea, At: c.LogLength, Entries: [][]byte{[]byte(kept)}}},
		}))
		fmt.Println(kept)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
