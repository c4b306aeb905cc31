package storetest

import (
	"testing"

	"github.com/abidehq/abide/store"
)

// propertyCase proves one rule of the contract, and is named by it.
type propertyCase struct {
	name string
	run  func(w *world)

	// needsReopen says that the rule is about a store that outlives its process.
	needsReopen bool

	// needsPortable says that the rule is about a store.Portable.
	needsPortable bool

	// needsClock says that the rule is about a clock that is set.
	needsClock bool

	// needsOpen says that the rule is about a store that is opened a second time.
	needsOpen bool

	// needsTogether says that the rule is about commits that span tenants.
	needsTogether bool

	// needsApart says that the rule is about tenants between which commits do not span.
	needsApart bool
}

// holdsFor reports whether the rule is about stores like that of b.
func (c *propertyCase) holdsFor(b *Backend) bool {
	_, portable := b.Store.(store.Portable)
	return (!c.needsReopen || b.Reopen != nil) && (!c.needsPortable || portable) && (!c.needsOpen || b.Open != nil) &&
		(!c.needsClock || b.SetClock != nil) && (!c.needsTogether || b.Apart == nil) &&
		(!c.needsApart || b.Apart != nil)
}

// propertyGroup is the cases of one file.
type propertyGroup struct {
	name  string
	cases []propertyCase
}

// groups returns all cases of the suite.
func groups() []propertyGroup {
	return []propertyGroup{
		{"atomicity", atomicityCases},
		{"ordering", orderingCases},
		{"races", raceCases},
		{"claims", claimCases},
		{"waiting", waitingCases},
		{"leases", leaseCases},
		{"owners", ownerCases},
		{"releases", releaseCases},
		{"visibility", visibilityCases},
		{"clocks", clockCases},
		{"messages", messageCases},
		{"logs", logCases},
		{"records", recordCases},
		{"quarantine", quarantineCases},
		{"routes", routeTTLCases},
		{"ifrouted", ifRoutedCases},
		{"new", newCases},
		{"tenants", tenantCases},
		{"limited", limitedCases},
		{"apart", apartCases},
		{"contention", contentionCases},
		{"bodies", bodyCases},
		{"names", nameCases},
		{"closing", closingCases},
		{"validation", validationCases},
		{"portable", portableCases},
	}
}

// Run proves every rule of the contract on the backends of factory: one subtest for
// each, in parallel, each with a store of its own. The clock of a store must show
// whole milliseconds.
func Run(t *testing.T, factory Factory) {
	// What stores of this kind can do decides which rules there are.
	example := factory(t)
	for _, group := range groups() {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range group.cases {
				if !c.holdsFor(example) {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(newWorld(t, factory))
				})
			}
		})
	}
}
