package vet

import (
	"go/types"
	"slices"
)

// verdict is what is wrong with a thing, wherever it is used.
type verdict struct {
	category Category
	text     string
}

// lookup judges a function, a method or a variable by the table.
func lookup(obj types.Object) (verdict, bool) {
	if obj.Pkg() == nil {
		return verdict{}, false
	}
	rules := known[obj.Pkg().Path()]
	if rules == nil {
		return verdict{}, false
	}
	_, isVar := obj.(*types.Var)
	recv, name := receiverName(obj), obj.Name()
	for _, r := range rules {
		if r.matches(recv, name, isVar) {
			return r.verdict(objectName(obj)), true
		}
	}
	return verdict{}, false
}

func (r rule) matches(recv, name string, isVar bool) bool {
	listed := slices.Contains(r.names, name) && recv == ""
	if recv != "" {
		listed = slices.Contains(r.names, recv+"."+name) || slices.Contains(r.names, recv+".*")
	}
	if r.others {
		return !listed && !isVar
	}
	return listed
}

func (r rule) verdict(subject string) verdict {
	does, instead := r.does, r.instead
	if does == "" {
		does = traits[r.category].does
	}
	if instead == "" {
		instead = traits[r.category].instead
	}
	return verdict{category: r.category, text: subject + " " + does + ": " + instead}
}
