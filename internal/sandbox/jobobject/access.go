package jobobject

import "palyra/internal/sandbox"

// access is an entry of an access list that a directory needs.
type access struct {
	path    string
	sid     string
	rights  uint32
	inherit inheritance
	low     bool // the directory, and what comes to be in it, is labelled low
}

// inheritance says what an entry applies to.
type inheritance uint32

const (
	hereOnly  inheritance = 0x0
	hereAndIn inheritance = 0x3       // files and directories in it as well
	inOnly    inheritance = 0x3 | 0x8 // not the directory itself
)

// Rights to files and directories. None of them allows changing access lists or owners. Deleting takes the right to
// the file itself, never the right to delete entries of a directory, so that a file without that right stays.
const (
	toRead       = 0x001200a9 // read, list, execute
	toChange     = 0x001301bf // and write, make, delete itself
	toWorkIn     = toChange &^ deleteItself
	deleteItself = 0x00010000
	deleteIn     = 0x00000040 // never given
	writeDAC     = 0x00040000 // never given
	writeOwner   = 0x00080000 // never given
)

// lowLabel is the integrity label of what a run may write, for the directory and
// what is in it: low, and nothing lower writes.
const lowLabel = "S:(ML;OICI;NW;;;LW)"

// given returns the access of a run: its workspace and its private home and tmp to work in, none of
// which it can remove, and a copy of its program to read.
func given(j sandbox.Job, work, run string) []access {
	var out []access
	room := func(path, sid string) {
		out = append(out, access{path, sid, toWorkIn, hereOnly, true}, access{path, sid, toChange, inOnly, true})
	}
	room(j.Workspace, work)
	out = append(out, access{j.Private, run, toRead, hereOnly, false})
	room(j.Private+`\home`, run)
	room(j.Private+`\tmp`, run)
	return append(out, access{j.Private + `\exe`, run, toRead, hereAndIn, false})
}

// defaultDACL is the access list of a run's new objects: full access for its user, the system, and
// the run itself, which as a restricted token needs an entry.
func defaultDACL(user, owner string) string {
	return "D:(A;;GA;;;" + user + ")(A;;GA;;;" + localSystem + ")(A;;GA;;;" + owner + ")"
}
