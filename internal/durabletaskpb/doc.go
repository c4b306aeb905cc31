// Package durabletaskpb has the messages of the Durable Task protocol, generated from durabletask.proto.
// The compiler needs the definitions of google.protobuf, on Debian those of libprotobuf-dev.
package durabletaskpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative durabletask.proto
