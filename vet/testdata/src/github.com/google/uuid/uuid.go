// Package uuid is a stub of the generator that everybody uses.
package uuid

type UUID [16]byte

func New() UUID { return UUID{} }

func NewString() string { return "" }

func NewV7() (UUID, error) { return UUID{}, nil }

func NewSHA1(space UUID, data []byte) UUID { return UUID{} }

func Parse(s string) (UUID, error) { return UUID{}, nil }
