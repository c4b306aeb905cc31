package abide

import (
	"encoding/json"
	"reflect"
)

// Codec turns inputs, results and what comes with events into bytes and back. All
// processes that share a store must use the same one.
type Codec interface {
	// Encode returns a value as bytes.
	Encode(v any) ([]byte, error)

	// Decode reads what Encode wrote into v, a pointer.
	Decode(data []byte, v any) error
}

// JSON is the codec that is used unless the configuration says otherwise: it can be
// read by people and by every language.
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

// None is the input or result of what has none. It takes no room in history.
type None = struct{}

// encode returns nothing for a value of a type that has nothing to say.
func encode[T any](c Codec, v T) ([]byte, error) {
	if isNone[T]() {
		return nil, nil
	}
	return c.Encode(v)
}

// decode is the inverse of encode. What is not there is the zero value.
func decode[T any](c Codec, data []byte) (T, error) {
	var v T
	if len(data) == 0 || isNone[T]() {
		return v, nil
	}
	err := c.Decode(data, &v)
	return v, err
}

func isNone[T any]() bool { return reflect.TypeFor[T]() == reflect.TypeFor[None]() }
