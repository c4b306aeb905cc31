package store

// Pressured is a store that knows how far its background work is behind the commits. Programs that
// accept work from outside can accept less of it before commits have to wait.
type Pressured interface {
	// Pressure returns how close the store is to delaying commits: 0 if it keeps up, and 1 and more if
	// fewer commits should be made until it has caught up. It is cheap enough to be called a few
	// times a second.
	Pressure() float64
}

// Pressure returns the pressure of a store, and 0 if the store does not know it.
func Pressure(s Store) float64 {
	if p, ok := s.(Pressured); ok {
		return p.Pressure()
	}
	return 0
}
