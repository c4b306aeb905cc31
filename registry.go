package abide

import (
	"log/slog"
	"maps"
	"slices"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/history"
	"github.com/abidehq/abide/internal/registry"
	"github.com/abidehq/abide/internal/replay"
)

// What packages abidetest and remote need, and nobody else should have.
func init() {
	registry.Read = func(list, codec any, logger *slog.Logger) (registry.Registry, error) {
		d, err := define(list.([]Definition))
		if err != nil {
			return registry.Registry{}, err
		}
		return registry.Registry{
			Code:       d.code(codec.(Codec), logger),
			Activities: slices.Sorted(maps.Keys(d.activities)),
		}, nil
	}
	registry.Events = func(h any) ([]history.Event, error) { return h.(*History).events() }
	registry.Start = func(request any) engine.Start { return request.(StartRequest).s }
	registry.Raise = func(request any) engine.Raise { return request.(RaiseRequest).r }
	registry.WithCodec = func(info, codec any) { info.(*Info).codec = codec.(Codec) }
}

// code returns the functions of the orchestrations, by route.
func (d *definitions) code(codec Codec, logger *slog.Logger) engine.Code {
	code := engine.Code{}
	for route, f := range d.orchestrations {
		code[route] = func(ref engine.Ref) replay.Code {
			return f(environment{codec: codec, logger: logger, tenant: ref.Tenant})
		}
	}
	return code
}
