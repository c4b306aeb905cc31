package engine

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// CheckName reports whether a name is one for what: an orchestration, activity, event,
// timer, step, change or value.
func CheckName(what, name string) error { return checkName(what, name) }

func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("abide: the name of a %s is empty: %w", what, ErrInvalid)
	case len(name) > MaxName:
		return fmt.Errorf("abide: the name of a %s has %d bytes, at most %d are allowed: %w", what, len(name), MaxName, ErrInvalid)
	case !utf8.ValidString(name):
		return fmt.Errorf("abide: the name of a %s, %q, is not UTF-8: %w", what, name, ErrInvalid)
	case name[0] == '.':
		return fmt.Errorf("abide: the name of a %s, %q, begins with a dot, which is Abide's own: %w", what, name, ErrInvalid)
	}
	for _, r := range name {
		if r < ' ' || r == 0x7f || r == '@' {
			return fmt.Errorf("abide: the name of a %s, %q, has the character %q; all but @ and control characters are allowed: %w", what, name, r, ErrInvalid)
		}
	}
	return nil
}

// CheckVersion reports whether an orchestration can have that version.
func CheckVersion(version string) error {
	if version == "" {
		return nil
	}
	if len(version) > MaxVersion {
		return fmt.Errorf("abide: a version has %d bytes, at most %d are allowed: %w", len(version), MaxVersion, ErrInvalid)
	}
	return checkName("version", version)
}

// CheckRoute reports whether an orchestration can have that route, name or name@version.
func CheckRoute(route string) error {
	name, version, versioned := strings.Cut(route, "@")
	if err := checkName("orchestration", name); err != nil {
		return err
	}
	if versioned && version == "" {
		return fmt.Errorf("abide: the version in %q is empty: %w", route, ErrInvalid)
	}
	return CheckVersion(version)
}

// CheckRef reports whether there can be such an instance.
func CheckRef(ref Ref) error { return checkRef(ref) }

func checkRef(ref Ref) error {
	switch {
	case ref.ID == "":
		return fmt.Errorf("abide: an instance's ID is empty: %w", ErrInvalid)
	case len(ref.ID) > MaxID:
		return fmt.Errorf("abide: an instance's ID has %d bytes, at most %d are allowed: %w", len(ref.ID), MaxID, ErrInvalid)
	case len(ref.Tenant) > MaxTenant:
		return fmt.Errorf("abide: a tenant has %d bytes, at most %d are allowed: %w", len(ref.Tenant), MaxTenant, ErrInvalid)
	case !utf8.ValidString(ref.ID) || !utf8.ValidString(ref.Tenant):
		return fmt.Errorf("abide: %v is not UTF-8: %w", ref, ErrInvalid)
	}
	return nil
}

func checkPayload(what string, data []byte) error {
	if len(data) > MaxPayload {
		return fmt.Errorf("abide: %s has %d bytes, at most %d are allowed: %w", what, len(data), MaxPayload, ErrInvalid)
	}
	return nil
}

func checkStarts(starts []Start) error {
	if len(starts) > MaxBatch {
		return fmt.Errorf("abide: start: %d instances at once, at most %d are allowed: %w", len(starts), MaxBatch, ErrInvalid)
	}
	seen := make(map[Ref]bool, len(starts))
	for i := range starts {
		s := &starts[i]
		if err := checkRef(s.Ref); err != nil {
			return err
		}
		if seen[s.Ref] {
			return fmt.Errorf("abide: start: instance %v is there twice: %w", s.Ref, ErrInvalid)
		}
		seen[s.Ref] = true
		if err := checkName("orchestration", s.Name); err != nil {
			return err
		}
		if err := CheckVersion(s.Version); err != nil {
			return err
		}
		if err := checkPayload("the input of "+s.Ref.String(), s.Input); err != nil {
			return err
		}
		if err := CheckLimits(s.Limits, s.Priority); err != nil {
			return err
		}
		for _, status := range s.Replaceable {
			if !slices.Contains(Statuses, status) {
				return fmt.Errorf("abide: start: %v replaces an instance of the unknown status %q, known are %v: %w", s.Ref, status, Statuses, ErrInvalid)
			}
		}
		if s.After < 0 {
			return fmt.Errorf("abide: start: %v begins %v from now: must not be negative: %w", s.Ref, s.After, ErrInvalid)
		}
	}
	return nil
}

func checkRaise(r *Raise) error {
	if err := checkRef(r.Ref); err != nil {
		return err
	}
	if err := checkName("event", r.Name); err != nil {
		return err
	}
	if len(r.ID) > MaxName {
		return fmt.Errorf("abide: the ID of an event has %d bytes, at most %d are allowed: %w", len(r.ID), MaxName, ErrInvalid)
	}
	return checkPayload(fmt.Sprintf("event %q for %v", r.Name, r.Ref), r.Data)
}
