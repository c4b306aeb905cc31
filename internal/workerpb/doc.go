// Package workerpb has the messages of the protocol between a server and its workers, generated from
// worker.proto, which documents them.
package workerpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative worker.proto
