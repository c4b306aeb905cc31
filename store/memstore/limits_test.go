package memstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// TestLimits: what a store does not declare is that of the contract, and it cannot declare more.
func TestLimits(t *testing.T) {
	t.Parallel()
	limits := func(l store.Limits) store.Limits { return memstore.New(memstore.Options{Limits: l}).Limits() }
	contract, least := store.ContractLimits(), store.LeastLimits()
	if got := limits(store.Limits{}); got != contract {
		t.Errorf("limits that are not declared are %v, want %v", got, contract)
	}
	if got := limits(least); got != least {
		t.Errorf("limits that are declared are %v, want %v", got, least)
	}
	more := store.Limits{TxOps: 1 << 40, TxBytes: 1 << 40, Body: 1 << 40, Record: 1 << 40}
	if got := limits(more); got != contract {
		t.Errorf("limits above the contract's are %v, want %v", got, contract)
	}
	if err := least.Check(); err != nil {
		t.Errorf("the least limits: %v", err)
	}
	for _, lower := range []func(*store.Limits){
		func(l *store.Limits) { l.TxOps-- }, func(l *store.Limits) { l.TxBytes-- }, func(l *store.Limits) { l.Body-- }, func(l *store.Limits) { l.Record-- },
	} {
		l := least
		lower(&l)
		if err := l.Check(); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "are needed at least") {
			t.Errorf("%v: %v, want that more is needed", l, err)
		}
	}
}
