package web

import (
	"os"
	"reflect"
	"regexp"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
)

// TestSnippetsNameFieldsOfTheConfiguration: the page shows an operator which fields to set, and
// they exist.
func TestSnippetsNameFieldsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("templates/workers.html")
	check.OK(t, err)
	snippet := regexp.MustCompile(`"abide\.Config\{.*?\}"`).FindString(string(text))
	fields := regexp.MustCompile(`(\w+): `).FindAllStringSubmatch(snippet, -1)
	if len(fields) == 0 {
		t.Fatal("the page of workers has no snippet with fields of abide.Config")
	}
	for _, f := range fields {
		if _, ok := reflect.TypeFor[abide.Config]().FieldByName(f[1]); !ok {
			t.Errorf("the page of workers names %s, which abide.Config does not have", f[1])
		}
	}
}
