// Package web is the page that people keep open: what needs a person first, then
// everything that runs, waits and has happened, and a form for each change.
//
// All of it is rendered here, over the services of this process, and works without
// scripts. Those that come along keep regions of a page up to date, open forms in dialogs,
// and copy commands. Nothing is changed by a GET, nothing is loaded from elsewhere, and no
// script or style stands in a page.
//
// The shape is the same everywhere: a [view] is what a handler returns to be shown, a
// [form] is what a person fills in, and a [verb] is a form with what it does.
package web
