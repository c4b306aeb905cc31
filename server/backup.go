package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
)

func (s *Server) addBackups() {
	route(s, auth.Admin, huma.Operation{
		OperationID: "create-backup", Method: http.MethodPost, Path: "/api/v1/backups", Summary: "Back up the embedded store", Tags: []string{"store"},
		DefaultStatus: http.StatusCreated,
		Description: "Into a folder on the server's machine, while the server works on. It is of all tenants, so it is for who may see all of them. " +
			"Other stores are backed up with the tools of their databases.",
	}, func(ctx context.Context, in *struct{ Body api.NewBackup }) (*answer[api.Backup], error) {
		if err := allTenants(ctx); err != nil {
			return nil, err
		}
		began := s.clock.Now().UTC()
		if err := s.backUp(ctx, in.Body.Path); err != nil {
			return nil, err
		}
		return &answer[api.Backup]{http.StatusCreated, api.Backup{Path: in.Body.Path, CreatedAt: began}}, nil
	})
}

// backUp backs up the store. The caller may do everything, and learns what went wrong.
func (s *Server) backUp(ctx context.Context, path string) error {
	if !filepath.IsAbs(path) {
		return s.problem(fmt.Errorf("the path is %q, which is not absolute: %w", path, store.ErrInvalid))
	}
	b, ok := s.cfg.Store.(store.Backuper)
	if !ok {
		return s.problem(fmt.Errorf("only the embedded store is backed up into a folder, others with the tools of their databases: %w", store.ErrInvalid))
	}
	err := b.Backup(ctx, path)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrInUse):
		return newProblem(http.StatusConflict, api.CodeConflict, "backup in progress", err.Error())
	case errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrFailed), ctx.Err() != nil:
		return s.problem(err)
	}
	s.log.Error("backup failed", "path", path, "error", err)
	return newProblem(http.StatusInternalServerError, api.CodeInternal, "backup failed", err.Error())
}
