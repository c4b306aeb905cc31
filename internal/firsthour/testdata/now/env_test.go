package main

import (
	"github.com/abidehq/abide"
	"github.com/abidehq/abide/abidetest"
)

func register(env *abidetest.Env, definitions ...abide.Definition) { env.Register(definitions...) }
