package store

import "context"

type transactionKey struct{}

// WithTransaction returns a context whose calls are part of a transaction of the caller's own. It is for
// stores that allow it, which say what tx is: see pgstore.WithTx. Nothing of such a call may be committed
// in any other way.
func WithTransaction(ctx context.Context, tx any) context.Context {
	return context.WithValue(ctx, transactionKey{}, tx)
}

// TransactionOf returns the transaction of [WithTransaction], or nil.
func TransactionOf(ctx context.Context) any { return ctx.Value(transactionKey{}) }
