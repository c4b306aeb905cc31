package remote

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
)

var _ abide.BuildOperator = (*transport)(nil)

const buildsPath = "/api/v1/builds"

// buildPath returns the path of a build.
func buildPath(id string) (string, error) {
	if id == "" {
		return "", fmt.Errorf("remote: builds: no ID: %w", abide.ErrInvalid)
	}
	return buildsPath + "/" + url.PathEscape(id), nil
}

// Builds returns the builds that are known, or one of them.
func (e *transport) Builds(ctx context.Context, id string) ([]abide.Build, error) {
	var list api.BuildList
	if id != "" {
		path, err := buildPath(id)
		if err != nil {
			return nil, err
		}
		list.Builds = make([]api.Build, 1)
		if err := e.call(ctx, http.MethodGet, path, nil, nil, &list.Builds[0]); err != nil {
			return nil, err
		}
	} else if err := e.call(ctx, http.MethodGet, buildsPath, nil, nil, &list); err != nil {
		return nil, err
	}
	builds := make([]abide.Build, len(list.Builds))
	for i := range list.Builds {
		builds[i] = list.Builds[i].Build()
	}
	return builds, nil
}

// SetBuild changes what is set for a build.
func (e *transport) SetBuild(ctx context.Context, id string, change abide.BuildChange) error {
	path, err := buildPath(id)
	if err != nil {
		return err
	}
	return e.call(ctx, http.MethodPatch, path, nil, api.BuildChange(change), nil)
}

// MoveBuild moves instances from one build to another.
func (e *transport) MoveBuild(ctx context.Context, move abide.BuildMove) (abide.BuildMoved, error) {
	path, err := buildPath(move.From)
	if err != nil {
		return abide.BuildMoved{}, err
	}
	var moved api.BuildMoved
	err = e.call(ctx, http.MethodPost, path+"/move", nil, api.BuildMove{To: move.To, Orchestrations: move.Orchestrations, Live: move.Live}, &moved)
	return abide.BuildMoved(moved), err
}
