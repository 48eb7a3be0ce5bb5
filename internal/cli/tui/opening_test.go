package tui

import (
	"slices"
	"testing"

	"palyra/internal/cli/screen"
	"palyra/internal/cli/tui/opening"
)

// The first screen, which another program draws, is the one that is drawn here of an inbox that nothing is known of.
func TestOpening(t *testing.T) {
	for columns := range 240 {
		for _, rows := range []int{0, 1, 5, 6, 7, 16, 24, 50} {
			for _, coloured := range []bool{false, true} {
				m := &model{width: columns, height: rows, style: screen.Style(coloured)}
				got := opening.Lines(columns, rows, coloured)
				if (got == nil) != (columns < 42 || rows < 6) {
					t.Fatalf("%d x %d: %q", columns, rows, got)
				}
				if want := m.screen(); got != nil && !slices.Equal(got, want) {
					t.Fatalf("%d x %d, coloured %t:\n%q\n%q", columns, rows, coloured, got, want)
				}
			}
		}
	}
}
