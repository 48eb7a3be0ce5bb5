package opening_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"palyra/internal/cli/tui/opening"
)

// Nothing is drawn for a line that may not show the terminal UI.
func TestPlain(t *testing.T) {
	for line, want := range map[string][2]bool{
		"tui": {true, false}, "tui --bell --desktop --mouse": {true, false}, "--home tui tui": {true, false}, "tui --home /x": {true, false},
		"--home=/x tui": {true, false}, "--no-color tui": {true, true}, "tui --no-color": {true, true},

		"": {}, "--home tui": {}, "--home": {}, "tui --home": {}, "tui tui": {}, "tui --plain": {}, "tui --help": {}, "tui -h": {}, "tui x": {},
		"--bell tui": {}, "tui --bell=no": {}, "--json tui": {}, "--remote office tui": {}, "-- tui": {}, "tui --": {}, "tui --what": {},
		"help tui": {}, "exec -- tui": {}, "--no-color": {}, "--home=/x": {}, "tui --drawn=1": {},
	} {
		if ok, colourless := opening.Plain(strings.Fields(line)); ok != want[0] || colourless != want[1] {
			t.Errorf("%q: %t %t", line, ok, colourless)
		}
	}
}

// Only the process that drew it goes on with the screen.
func TestMarked(t *testing.T) {
	args := []string{"palyra", "tui", "--bell"}
	marked := opening.Marked(args[:2])
	if rest, was := opening.Unmarked(marked); !was || !slices.Equal(rest, args[:2]) || args[2] != "--bell" {
		t.Errorf("%q: %q %t", marked, rest, was)
	}
	pid := strconv.Itoa(os.Getpid())
	for _, typed := range [][]string{
		nil, {"tui"}, {"tui", "--drawn=1" + pid}, {"tui", "--drawn="}, {"--drawn=" + pid, "tui"}, {"--drawn=" + pid},
	} {
		if rest, was := opening.Unmarked(typed); was || !slices.Equal(rest, typed) {
			t.Errorf("%q: %q %t", typed, rest, was)
		}
	}
}
