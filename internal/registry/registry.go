// Package registry is the door between package abide and packages abidetest and remote:
// through it the test kit gets at what is registered, and at what is in a history, and a
// client of a server at what it is asked for, without package abide having to show that to
// everybody.
//
// Package abide hangs its functions in here when it is initialised. They take its types as
// any, because this package stands below it.
package registry

import (
	"log/slog"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/history"
)

// Registry is what definitions come to.
type Registry struct {
	// Code has the functions of the orchestrations, by route.
	Code engine.Code

	// Activities are the names of the activities, in order.
	Activities []string
}

// Read reads definitions, an []abide.Definition, which work with codec, an abide.Codec. An
// error says what is wrong with them.
var Read func(definitions, codec any, logger *slog.Logger) (Registry, error)

// Events returns the events of an *abide.History. An error says what is malformed.
var Events func(h any) ([]history.Event, error)

// Start returns what an abide.StartRequest asks for, and Raise what an abide.RaiseRequest
// asks for.
var (
	Start func(request any) engine.Start
	Raise func(request any) engine.Raise
)

// WithCodec has an *abide.Info read its values and its result with an abide.Codec.
var WithCodec func(info, codec any)
