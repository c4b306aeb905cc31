// Command abidevet finds nondeterminism in orchestration code. It runs on package
// patterns, and as a tool of go vet:
//
//	abidevet ./...
//	go vet -vettool=$(which abidevet) ./...
package main

import (
	"golang.org/x/tools/go/analysis/singlechecker"

	"github.com/abidehq/abide/vet"
)

func main() { singlechecker.Main(vet.Analyzer) }
