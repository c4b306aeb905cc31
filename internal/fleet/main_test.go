package fleet

import (
	"os"
	"testing"

	"github.com/abidehq/abide/internal/testenv"

	_ "github.com/abidehq/abide/store/pebblestore" // pebble: URLs
	_ "github.com/abidehq/abide/store/pgstore"     // postgres: URLs
	_ "github.com/abidehq/abide/store/redisstore"  // redis: URLs
)

// TestMain is also where the processes of a fleet begin: see worker.
func TestMain(m *testing.M) {
	if text := os.Getenv(workerVariable); text != "" {
		os.Exit(runWorker(text))
	}
	if text := os.Getenv(moverVariable); text != "" {
		os.Exit(runMover(text))
	}
	testenv.Main(m)
}
