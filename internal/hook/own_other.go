//go:build !unix

package hook

// Session is what an agent's program says about where it works.
type Session struct {
	Transcript string
	ID         string
	Temp       string
}

// Keeps reports that no file is known to be the agent's own: here owners are not told.
func (Session) Keeps(string) bool { return false }
