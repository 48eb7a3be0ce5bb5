package sandbox

import (
	"slices"
	"testing"

	"palyra"
	"palyra/internal/stage"
)

// A text that is the name of a change, or of a directory of one, means that alone; any other is a pattern.
func TestPickerTakesNamesAsTheyAre(t *testing.T) {
	w := Work{Workspace: "/w", Changes: []stage.Change{
		{Path: "a["}, {Path: "[x]"}, {Path: "x"}, {Path: "[d]/f"}, {Path: "d/f"}, {Path: "*"}, {Path: "src/a.go"},
	}}
	for text, want := range map[string][]string{
		"a[": {"a["}, "[x]": {"[x]"}, "[d]": {"[d]/f"}, "*": {"*"}, "x": {"x"}, "src/*.go": {"src/a.go"}, "d": {"d/f"}, "?": {"x", "d/f", "*"},
		"/w/src": {"src/a.go"},
	} {
		pick, err := Picker([]palyra.PathText{palyra.TextOfPath(text)}, w)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, c := range w.Changes {
			if pick(c.Path) {
				got = append(got, c.Path)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s means %q, want %q", text, got, want)
		}
	}
	for _, text := range []palyra.PathText{"b[", "nothing"} {
		if _, err := Picker([]palyra.PathText{text}, w); err == nil {
			t.Errorf("%s means something", text)
		}
	}
}
