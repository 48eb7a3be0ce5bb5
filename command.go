package palyra

// CommandClass is what running a command amounts to, as far as its words tell.
type CommandClass string

// The classes, from the one that changes least. Only a command that is understood to its last word is not unknown.
const (
	CommandReadOnly    CommandClass = "read_only"   // looks, and changes nothing
	CommandBuild       CommandClass = "build"       // runs the workspace's own code, and writes below it
	CommandWrite       CommandClass = "write"       // changes files or repositories here
	CommandDestructive CommandClass = "destructive" // cannot be taken back, or reaches beyond this machine
	CommandUnknown     CommandClass = "unknown"
)

// Command is what a plan's program would do, by its words alone. It lowers no risk, and no sandbox relies on it.
type Command struct {
	Class       CommandClass `json:"class"`
	Understood  bool         `json:"understood"`             // every word was
	Subcommand  string       `json:"subcommand,omitempty"`   // git push → push
	Shell       bool         `json:"shell,omitempty"`        // a shell reads a line
	RunsCode    bool         `json:"runs_code,omitempty"`    // can run code or programs that the words name or bring
	RunsFetched bool         `json:"runs_fetched,omitempty"` // fetches something, and runs what its words do not bring
	Loopback    bool         `json:"loopback,omitempty"`     // curl and wget are told to go to localhost only
	Programs    []string     `json:"programs,omitempty"`     // base names of all that are run, wrappers first
	Outside     []string     `json:"outside,omitempty"`      // paths that lead out of the workspace
	Why         []string     `json:"why,omitempty"`          // what decided the class, for people
}
