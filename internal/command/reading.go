package command

import (
	"slices"
	"strings"
	"unicode"

	"palyra"
)

// reading is what is known so far about one command line.
type reading struct {
	tables   *tables
	asked    bool // a push of git is asked about where it leaves, and goes nowhere else
	ownPath  bool // names of programs may lead into the workspace
	any      bool // something was looked at
	doubtful bool
	shell    bool
	code     bool
	class    palyra.CommandClass
	sub      string
	programs []string
	outside  []string
	hosts    []string // where programs that fetch are told to go
	fetches  bool     // one of its programs fetches
	local    bool     // one is told to fetch from localhost
	afar     bool     // one may fetch from elsewhere
	saves    bool     // files are written
	obeys    bool     // then one takes its orders from input, from a file or from a word that is not known, or is no known one
	before   bool     // one that came before does
	jumbled  bool     // what comes later may run earlier
	several  bool     // more than one simple command may run, or none
	why      []string
	commands int
	fed      bool // a pipe brings names of files that were found
	strayed  int  // paths out of the workspace, counted again and again
}

// rank orders classes by how much they ask of a person. Destructive ranks last: a destructive command that is
// not understood is still destructive.
func rank(c palyra.CommandClass) int {
	return slices.Index([]palyra.CommandClass{
		palyra.CommandReadOnly, palyra.CommandBuild, palyra.CommandWrite, palyra.CommandUnknown, palyra.CommandDestructive,
	}, c)
}

// raise notes that the command does at least what the class says. It returns whether that is more than was known.
func (r *reading) raise(c palyra.CommandClass, why string) bool {
	if rank(c) < 0 {
		c = palyra.CommandUnknown
	}
	if c == palyra.CommandUnknown {
		r.doubtful, r.code = true, true
	}
	more := !r.any || rank(c) > rank(r.class)
	if more {
		r.class = c
	}
	r.any = true
	r.note(why)
	return more
}

// doubt notes something that is not understood.
func (r *reading) doubt(why string) { r.raise(palyra.CommandUnknown, why) }

func (r *reading) note(why string) {
	why = strings.ToValidUTF8(strings.Map(printable, why[:min(len(why), maxWhyBytes)]), "")
	if why != "" && len(r.why) < maxWhy && !slices.Contains(r.why, why) {
		r.why = append(r.why, why)
	}
}

// printable keeps words of a command from drawing on a person's screen.
func printable(c rune) rune {
	if unicode.IsPrint(c) {
		return c
	}
	return '?'
}

// stray notes a path out of the workspace.
func (r *reading) stray(p string) {
	r.strayed++
	if slices.Contains(r.outside, p) {
		return
	}
	if len(r.outside) >= maxOutside || len(p) > maxPath {
		r.doubt("too many or too long paths lead out of the workspace")
		return
	}
	r.outside = append(r.outside, p)
}

func (r *reading) result() palyra.Command {
	if !r.any {
		r.doubt("nothing is run")
	}
	return palyra.Command{
		Class: r.class, Understood: !r.doubtful, Subcommand: r.sub, Shell: r.shell, RunsCode: r.code,
		Loopback: r.local && !r.afar && !r.reachesBeyond(), Programs: r.programs, Outside: r.outside, Why: r.why,
		RunsFetched: r.obeys || r.fetches && r.before && r.jumbled,
	}
}

// obey notes that something runs which words do not bring.
func (r *reading) obey() {
	r.obeys, r.before = r.obeys || r.fetches, true
}
