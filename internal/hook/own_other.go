//go:build !unix

package hook

// AgentSession is what an agent's program says about where it works.
type AgentSession struct {
	Transcript string
	ID         string
	Temp       string
}

// Keeps reports that no file is known to be the agent's own: here owners are not told.
func (AgentSession) Keeps(string) bool { return false }

// Parks reports that no run is known to park.
func (AgentSession) Parks(string) bool { return false }
