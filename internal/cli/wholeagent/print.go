package wholeagent

import (
	"fmt"
	"io"
	"strings"

	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

// Say prints what would be done.
func (st Start) Say(w io.Writer) {
	key := "none: it signs in by itself, inside"
	if st.Key != nil {
		key = "the binding " + st.Key.Binding + ", as a placeholder in " + st.Key.Env
	}
	screen.Fields(
		w, screen.Pair{"agent", st.Read}, screen.Pair{"program", st.Program}, screen.Pair{"command", screen.ShellLine(st.Command)},
		screen.Pair{"variables", strings.Join(st.Env, " ")}, screen.Pair{"key", key},
		screen.Pair{"profile", st.Profile.Name + ", " + st.Profile.File + " (" + st.Profile.State + ")"},
		screen.Pair{"visible", strings.Join(st.Profile.Visible, " ")}, screen.Pair{"kept", strings.Join(st.Profile.Keeps, " ")},
	)
	for _, h := range st.Hosts {
		fmt.Fprintf(w, "  reaches   %s, %s\n", show.Line(h.At), show.Line(h.What))
	}
	for _, h := range st.Silenced {
		fmt.Fprintf(w, "  silenced  %s, %s (%s)\n", show.Line(h.At), show.Line(h.What), show.Line(h.By))
	}
	for _, why := range st.Why {
		fmt.Fprintf(w, "  why       %s\n", show.Line(why))
	}
}
