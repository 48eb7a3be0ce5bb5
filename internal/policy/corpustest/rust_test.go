package corpustest

import (
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
)

// The engine answers what it is asked, takes a new set in place of an old one
// and says so when it does not understand.
func TestRust(t *testing.T) {
	o := Rust(t, ".")
	ask := func() Answer {
		t.Helper()
		a, err := o.Ask(Question{
			Set: "s", Principal: cedar.NewEntityUID("User", "ada"), Action: cedar.NewEntityUID("Action", "read"),
			Resource: cedar.NewEntityUID("File", "f"), Context: cedar.Record{},
			Entities: []cedar.Entity{{
				UID: cedar.NewEntityUID("User", "ada"), Parents: cedar.NewEntityUIDSet(cedar.NewEntityUID("Team", "web")),
				Attributes: cedar.NewRecord(cedar.RecordMap{"age": cedar.Long(7)}),
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, c := range []struct {
		policies        map[string]string
		decision        string
		reasons, errors []string
	}{
		{map[string]string{
			"b": `permit (principal in Team::"web", action, resource);`, "a": `permit (principal, action, resource) when { principal.age == 7 };`,
			"c": `forbid (principal, action, resource) when { principal.nothing };`,
		}, "allow", []string{"a", "b"}, []string{"c"}},
		{map[string]string{"d": `permit (principal in Team::"ops", action, resource);`}, "deny", nil, nil},
	} {
		if err := o.Load("s", c.policies); err != nil {
			t.Fatal(err)
		}
		if a := ask(); a.Decision != c.decision || !slices.Equal(a.Reasons, c.reasons) || !slices.Equal(a.Errors, c.errors) {
			t.Errorf("%+v, want %+v", a, c)
		}
	}
	if err := o.Load("s", map[string]string{"x": "permit everything"}); err == nil || !strings.Contains(err.Error(), "rust: ") {
		t.Errorf("a set that does not parse: %v", err)
	}
	if _, err := o.Ask(Question{Set: "unheard of"}); err == nil {
		t.Error("a set that nobody named was asked")
	}
}

func TestSampleIsOfTheRightSize(t *testing.T) {
	if drawn("short", 1) || drawn("not-a-digest", 1) || !drawn("0000000a", 1) || !drawn("0000000a", 5) || drawn("0000000b", 5) {
		t.Error("the dice are loaded")
	}
}
