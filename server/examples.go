package server

import (
	"bytes"
	_ "embed" // for the examples
	"encoding/json"
	"strings"
	"sync"
)

// examplesJSON has a request for each operation, in an order in which all of them succeed, with
// the answers of a real server. A test sends them as the page at /docs shows them, and with
// -update it records the answers.
//
//go:embed examples.json
var examplesJSON []byte

// example is a request to the API, and its answer.
type example struct {
	// Request is the method and the path; {…} is an ID that the test knows.
	Request string `json:"request"`

	// Until is the status that the answer must have before the next request is sent.
	Until string `json:"until,omitempty"`

	// Keep is the field of the answer that {} stands for from here on.
	Keep string `json:"keep,omitempty"`

	Body json.RawMessage `json:"body,omitempty"`

	// Operation, Path, Status and Answer are recorded.
	Operation string          `json:"operation,omitempty"`
	Path      string          `json:"path,omitempty"`
	Status    int             `json:"status,omitempty"`
	Answer    json.RawMessage `json:"answer,omitempty"`
}

// examples returns the examples in their order, and firstExamples the first one of each operation.
var (
	examples = sync.OnceValue(func() (list []example) {
		if err := json.Unmarshal(examplesJSON, &list); err != nil {
			panic(err) // not reached: a test reads it
		}
		return list
	})
	firstExamples = sync.OnceValue(func() map[string]example {
		first := map[string]example{}
		for _, e := range examples() {
			if _, ok := first[e.Operation]; !ok {
				first[e.Operation] = e
			}
		}
		return first
	})
)

// curl returns a command that sends the example to a server, which takes a token or none.
func (e *example) curl(root string, token bool) string {
	method, _, _ := strings.Cut(e.Request, " ")
	words := []string{"curl"}
	if strings.Contains(e.Path, "/stream") {
		words = append(words, "-N")
	}
	if method != "GET" && (method != "POST" || len(e.Body) == 0) {
		words = append(words, "-X", method)
	}
	if token {
		words = append(words, `-H "Authorization: Bearer $ABIDE_TOKEN"`)
	}
	if len(e.Body) > 0 {
		words = append(words, "-H 'Content-Type: application/json' -d", shellQuote(layout(e.Body, "")))
	}
	return strings.Join(append(words, shellQuote(root+e.Path)), " ")
}

// layout returns JSON in one line, or with that indentation.
func layout(text json.RawMessage, indent string) string {
	var b bytes.Buffer
	var err error
	if indent == "" {
		err = json.Compact(&b, text)
	} else {
		err = json.Indent(&b, text, "", indent)
	}
	if err != nil {
		return string(text) // not reached: the file is JSON
	}
	return b.String()
}

// shellQuote returns a text as one word of a shell.
func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
