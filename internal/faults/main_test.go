package faults_test

import (
	"testing"

	"github.com/abidehq/abide/internal/teststore"
)

func TestMain(m *testing.M) { teststore.Main(m) }
