// Package roster tells processes on one store of each other: which of them are alive, and what
// they serve.
//
// Each keeps a record of kind worker, which it renews for as long as it runs ([Publish]) and
// removes when it ends. A record that was not renewed for [Alive], by the store's clock, is that
// of a process that died ([Live]).
package roster
