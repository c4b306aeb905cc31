// Package transfer copies a store into another one, and checks what a store holds. It
// works on [store.Portable] alone, so that it serves all backends alike, and any two of
// them.
//
// A copy can be killed at any time and gone on with: the target has a record that says
// how far it has come, see [store.CopyMark]. It ends with a comparison of checksums, one
// for each tenant, over all that both stores hold, and only then is the record removed.
//
// A check asks the backend whether its own tables agree, and then goes through all that
// the store holds and looks whether it makes sense to an engine: see rules.
package transfer
