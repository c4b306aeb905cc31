package replay_test

import "testing"

// maxFuzzed is how many bytes of each a fuzzer may use: an orchestration of more deeds
// shows nothing new.
const maxFuzzed = 300

// FuzzReplay looks for an orchestration, and something that happens to it, whose
// history does not lead back to where it is. The last byte of what happens changes the
// code: then it is found out.
func FuzzReplay(f *testing.F) {
	for _, program := range [][]deed{
		{{what: askActivity}, {what: waitForOne}, {what: stepGood}, {what: tellResult}},
		{{what: askEvent}, {what: askTimer}, {what: waitForAny}, {what: cancelOne}, {what: moveTimer, n: 1}},
		{{what: inScope, body: []deed{{what: askChildWithoutID}, {what: askChild}}}, {what: askEvent}, {what: waitForOne, n: 2}, {what: cancelScope}},
		{{what: askPromise, body: []deed{{what: stepBad}, {what: askActivity}}}, {what: waitForOne}, {what: endNow, n: 1}},
		{{what: beside, body: []deed{{what: stepGood}, {what: markChange}}}, {what: inShield, body: []deed{{what: askActivity}}}, {what: waitForOne}},
		{{what: deferred, body: []deed{{what: stepGood}}}, {what: detachChild}, {what: sendEvent}, {what: setValue}, {what: askTimer}, {what: waitForOne}},
	} {
		f.Add(appendDeeds(nil, program, 0), []byte{15, 1, 31, 0, 1, 0, 2, 31, 0, 1, 3, 0, 1, 0, 0, 1, 2, 0, 5})
		f.Add(appendDeeds(nil, program, 0), []byte{0, 3, 2, 20, 0, 0, 1, 1, 9, 0, 1, 0, 1, 1, 0})
	}
	f.Fuzz(func(t *testing.T, program, happens []byte) {
		program, happens = program[:min(len(program), maxFuzzed)], happens[:min(len(happens), maxFuzzed)]
		w := live(t, program, happens)
		if len(program) > 0 && len(happens) > 0 {
			other := append([]byte(nil), program...)
			other[int(happens[0])%len(other)] ^= happens[len(happens)-1]
			foundOut(w, other)
		}
	})
}

// appendDeeds is the opposite of drawDeeds.
func appendDeeds(b []byte, block []deed, depth int) []byte {
	most := mostDeeds(depth)
	b = append(b, byte(len(block)-most/5))
	for _, d := range block {
		b = append(b, byte(d.what), byte(d.n))
		if d.hasBody(depth) {
			b = appendDeeds(b, d.body, depth+1)
		}
	}
	return b
}

func TestTheSeedsOfTheFuzzerAreWhatTheySay(t *testing.T) {
	t.Parallel()
	want := []deed{
		{what: askActivity, n: 7}, {what: waitForOne},
		{what: beside, body: []deed{{what: stepGood}, {what: inScope, n: 1, body: []deed{{what: askChild}}}}},
		{what: askPromise, body: []deed{{what: endNow, n: 2}}}, {what: cancelScope}, {what: tellResult}, {what: setValue, n: 1},
	}
	got := drawDeeds(&choices{appendDeeds(nil, want, 0)}, 0)
	if !sameDeeds(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func sameDeeds(a, b []deed) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].what != b[i].what || a[i].n != b[i].n || !sameDeeds(a[i].body, b[i].body) {
			return false
		}
	}
	return true
}
