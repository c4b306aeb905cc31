package remote_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/operation"
	"github.com/abidehq/abide/store/memstore"
)

func TestOperations(t *testing.T) {
	t.Parallel()
	st := memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = st.Close() })
	quiet := slog.New(slog.DiscardHandler)
	local, err := operation.New(operation.Config{Store: st, Client: abide.NewClient(st, nil), Logger: quiet})
	check.OK(t, err)
	s, err := server.New(server.Config{Store: st, Operations: local, Logger: quiet})
	check.OK(t, err)
	far := dial(t, "unix", s).Operations()
	ctx := t.Context()
	from := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	n := api.NewOperation{
		ID: "../a", Kind: "cancel", Reason: "so",
		Filter: api.InstanceFilter{Tenant: "default", Orchestrations: []string{"o"}, Statuses: []string{"running"}, From: from, Tags: map[string]string{"a": "b"}},
	}
	got, err := far.Start(ctx, n)
	if err != nil || got.Status != "pending" || got.Ended() {
		t.Fatalf("%+v, %v", got, err)
	}
	there, err := local.Get(ctx, "default", "../a")
	if err != nil || there.Filter.Tenant == nil || *there.Filter.Tenant != "" || there.Reason != "so" || !there.Filter.From.Equal(from) {
		t.Errorf("there is %+v, %v", there, err)
	}
	same(t, "filter", got.Filter, n.Filter)
	same(t, "start", got, api.FromOperation(&there))
	if got, err = far.Get(ctx, "default", "../a"); err != nil {
		t.Error(err)
	}
	same(t, "get", got, api.FromOperation(&there))
	if got, err = far.Cancel(ctx, "default", "../a"); err != nil || got.Status != "cancelled" || !got.Ended() {
		t.Errorf("%+v, %v", got, err)
	}
	all, err := far.Start(ctx, api.NewOperation{Kind: "delete", All: true})
	if err != nil || all.ID == "" || all.Filter.Tenant != "" || !all.All {
		t.Fatalf("%+v, %v", all, err)
	}
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = local.Run(run)
	}()
	for !all.Ended() {
		if all, err = far.Get(ctx, "", all.ID); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	<-done
	list, err := far.List(ctx, remote.OperationFilter{Limit: 1})
	if err != nil || len(list.Operations) != 1 || list.NextPageToken == "" {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, tt := range []struct {
		f    remote.OperationFilter
		want int
	}{
		{remote.OperationFilter{}, 2},
		{remote.OperationFilter{Tenant: "default"}, 1},
		{remote.OperationFilter{Statuses: []string{"completed", "cancelled"}}, 2},
		{remote.OperationFilter{Statuses: []string{"completed"}}, 1},
		{remote.OperationFilter{Kinds: []string{"cancel"}}, 1},
	} {
		if list, err := far.List(ctx, tt.f); err != nil || len(list.Operations) != tt.want {
			t.Errorf("%+v: %d, %v", tt.f, len(list.Operations), err)
		}
	}
	for name, tt := range map[string]struct {
		call func() error
		is   error
		says string
	}{
		"not found": {func() error { _, err := far.Get(ctx, "default", "none"); return err }, abide.ErrNotFound, "none"},
		"no ID":     {func() error { _, err := far.Get(ctx, "default", ""); return err }, abide.ErrInvalid, "needed"},
		"exists": {func() error {
			_, err := far.Start(ctx, api.NewOperation{ID: "../a", Kind: "delete", Filter: api.InstanceFilter{Tenant: "default"}})
			return err
		}, abide.ErrExists, "../a"},
		"state":   {func() error { _, err := far.Cancel(ctx, "", all.ID); return err }, abide.ErrState, "completed"},
		"invalid": {func() error { _, err := far.Start(ctx, api.NewOperation{Kind: "delete"}); return err }, abide.ErrInvalid, "names no tenant"},
		"kind":    {func() error { _, err := far.Start(ctx, api.NewOperation{Kind: "x", All: true}); return err }, abide.ErrInvalid, "kind"},
	} {
		if err := tt.call(); !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v; want %v with %q", name, err, tt.is, tt.says)
		}
	}
}
