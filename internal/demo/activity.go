package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide"
)

// Activities. None of them does anything outside of this process.
var (
	Charge = abide.NewActivity("demo-charge", charge, abide.Under(Bank))
	Ship   = abide.NewActivity("demo-ship", ship)
	Render = abide.NewActivity("demo-render", render)
	Read   = abide.NewActivity("demo-read", read)
	Mail   = abide.NewActivity("demo-mail", mail, abide.StartToClose(10*time.Second))
)

// charge is refused now and then, so that there are retries to see.
func charge(ctx context.Context, in Order) (string, error) {
	if info, ok := abide.ActivityOf(ctx); ok && in.Number%4 == 0 && info.Attempt <= int(in.Number/4%3) {
		return "", errors.New("the bank does not answer")
	}
	return fmt.Sprintf("charge-%d", in.Number), nil
}

func ship(_ context.Context, in Order) (string, error) {
	return fmt.Sprintf("parcel-%d", in.Number), nil
}

// render returns how many words a page has.
func render(_ context.Context, page int) (int, error) { return 250 + 7*page, nil }

// errMissing is what there is no use in trying again after; other mistakes are repeated.
var errMissing = errors.New("the file is not there, and will not be")

func read(ctx context.Context, name string) (int, error) {
	if info, ok := abide.ActivityOf(ctx); ok && info.Attempt == 1 {
		return 0, fmt.Errorf("%s: the disk is busy", name)
	}
	return 0, abide.Final(fmt.Errorf("%s: %w", name, errMissing))
}

func mail(_ context.Context, text string) (string, error) { return "sent: " + text, nil }
