package abide

import (
	"encoding/json"
	"reflect"
)

// Codec encodes and decodes inputs, results and values of events. All processes on a store must
// use the same codec.
type Codec interface {
	// Encode returns the encoded form of v.
	Encode(v any) ([]byte, error)

	// Decode decodes data into v, a pointer.
	Decode(data []byte, v any) error
}

// JSON is the default codec. It uses encoding/json.
var JSON Codec = jsonCodec{}

// orJSON returns the codec, or JSON if there is none.
func orJSON(c Codec) Codec {
	if c == nil {
		return JSON
	}
	return c
}

type jsonCodec struct{}

func (jsonCodec) Encode(v any) ([]byte, error) { return json.Marshal(v) }

func (jsonCodec) Decode(data []byte, v any) error { return json.Unmarshal(data, v) }

// None is the type of an input or result that has no value. It takes no space in history.
type None = struct{}

// encode encodes a value. It returns nil for [None].
func encode[T any](c Codec, v T) ([]byte, error) {
	if isNone[T]() {
		return nil, nil
	}
	return c.Encode(v)
}

// decode is the inverse of encode. Without data it returns the zero value.
func decode[T any](c Codec, data []byte) (T, error) {
	var v T
	if len(data) == 0 || isNone[T]() {
		return v, nil
	}
	err := c.Decode(data, &v)
	return v, err
}

func isNone[T any]() bool { return reflect.TypeFor[T]() == reflect.TypeFor[None]() }
