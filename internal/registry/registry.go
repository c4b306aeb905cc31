// Package registry is the door between package abide and package abidetest: through it
// the test kit gets at what is registered, and at what is in a history, without package
// abide having to show either to everybody.
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
