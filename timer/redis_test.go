//go:build unix

package timer_test

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/redisbus"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
)

// TestRedisHasEachEnvelopeOnce: a process is killed after it has published, and so is the
// server. What is published twice is in the stream once.
func TestRedisHasEachEnvelopeOnce(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	to, err := redisbus.New(redisbus.Config{Addresses: []string{server.Addr}})
	check.OK(t, err)
	t.Cleanup(to.Close)
	b := &broker{
		bus:     to,
		trouble: func() { server.Kill(); server.Start() },
		received: func() (list []bus.Envelope) {
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true})
			check.OK(t, err)
			defer client.Close()
			entries, err := client.Do(t.Context(), client.B().Xrange().Key("abide:events").Start("-").End("+").Build()).AsXRange()
			check.OK(t, err)
			for _, entry := range entries {
				e, err := bus.Decode([]byte(entry.FieldValues["envelope"]))
				check.OK(t, err)
				list = append(list, e)
			}
			return list
		},
	}
	b.run(t, brokerWorld(t))
}
