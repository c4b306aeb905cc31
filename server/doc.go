// Package server is Abide over HTTP: an [http.Handler] that a program can mount beside its
// own routes, on its own services.
package server
