package main

import (
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/abidetest"
)

// Drift sleeps for a time that was computed from the wall clock.
var Drift = abide.NewOrchestration("drift", func(ctx abide.Context, _ abide.None) (string, error) {
	at := time.Now().Add(time.Hour)
	if err := abide.Sleep(ctx, time.Minute); err != nil {
		return "", err
	}
	timer := abide.NewTimerAt(ctx, at)
	return "drifted", timer.Wait(ctx)
})

// TestWallClock has to fail.
func TestWallClock(t *testing.T) {
	abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
		register(env, Drift)
		abidetest.Start(env, Drift, abide.None{}).Result()
	})
}
