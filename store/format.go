package store

import "fmt"

// CheckFormat reports whether a program may work on a store. What is stored carries two
// numbers: its format, and its oldest reader, the least format whose programs may still work
// on it. A change of the format that programs of the one before need not know of raises the
// format alone, so that old and new programs work side by side while one replaces the other.
//
// It returns [ErrFormat] if the store's format is newer than own, that of the program, and
// own is less than oldest. Backends use it so that the same mistake reads the same
// everywhere.
func CheckFormat(format, oldest, own int) error {
	if format <= own || oldest <= own {
		return nil
	}
	return fmt.Errorf("it has format %d, whose oldest reader is a program of format %d, and this program is of format %d: %w", format, oldest, own, ErrFormat)
}
