// Package gitwire reads what git and a server say to each other when git pushes, as far as that decides which refs become
// what, and has the words in which a connection of git to a server is asked about. What it cannot read it refuses.
package gitwire

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"palyra/internal/pattern"
)

// The services that git asks a server for.
const (
	ServiceFetch = "git-upload-pack"
	ServicePush  = "git-receive-pack"
)

// What an update does to a ref. Whatever is not certain is a force.
const (
	HowCreate  = "create"  // there was none
	HowForward = "forward" // its commit goes on from the one before
	HowForce   = "force"   // what was there is lost, or may be
	HowDelete  = "delete"
)

// Request is a connection of git to a repository at a server. With updates it is a push of exactly these; without, git
// connects, logs in, and reads what is there.
type Request struct {
	Binding string   `json:"binding"`
	Promise string   `json:"promise"`  // of the binding: what its key is, and where it goes
	Key     string   `json:"key"`      // its fingerprint
	HostKey string   `json:"host_key"` // the server's fingerprint; before it has spoken all that it may have, with commas
	User    string   `json:"user"`
	At      string   `json:"at"` // host:port
	Path    string   `json:"path"`
	Service string   `json:"service"`
	Updates []Update `json:"updates,omitempty"`
}

// Update is one ref that a push changes.
type Update struct {
	Ref     string   `json:"ref"`
	Old     string   `json:"old"` // zeros: none
	New     string   `json:"new"`
	How     string   `json:"how"`
	Commits []string `json:"commits,omitempty"` // subjects of those that come in, the newest first, along first parents
	More    int      `json:"more,omitempty"`    // beyond those
}

// Remote is the repository, as one text.
func (r Request) Remote() string { return r.User + "@" + r.At + ":" + r.Path }

// HostKeys are the fingerprints of HostKey.
func (r Request) HostKeys() []string { return strings.Split(r.HostKey, ",") }

// Branch is the one branch that a push makes or takes forward; "": it does something else, or more.
func (r Request) Branch() string {
	if r.Service != ServicePush || len(r.Updates) != 1 {
		return ""
	}
	u := r.Updates[0]
	name, ok := strings.CutPrefix(u.Ref, "refs/heads/")
	if !ok || u.How != HowCreate && u.How != HowForward {
		return ""
	}
	return name
}

// Loses reports whether a push does anything but to make or take forward one branch: what others have may be lost, or
// what has another meaning than a branch changes.
func (r Request) Loses() bool { return len(r.Updates) > 0 && r.Branch() == "" }

const maxText = 1024

var (
	validAt   = pattern.Later(`^[A-Za-z0-9.:\[\]-]{1,260}$`)
	validUser = pattern.Later(`^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}$`) // none with which two remotes would be one text
)

// Valid reports whether the request is one that can be asked about: every text of it is short, and shows what it is.
func (r Request) Valid() bool {
	if r.Service != ServiceFetch && r.Service != ServicePush || len(r.Updates) > 0 && r.Service != ServicePush ||
		len(r.Updates) > maxUpdates || !validAt().MatchString(r.At) || !validUser().MatchString(r.User) || !ValidPath(r.Path) {
		return false
	}
	for _, u := range r.Updates {
		if !ValidRef(u.Ref) {
			return false
		}
	}
	return true
}

// ValidPath reports whether a path of a repository is one that a server's shell and people read alike.
func ValidPath(path string) bool {
	return plain(path, maxText) && !strings.ContainsAny(path, `'"!\`+"`$;&|<>*?")
}

// ValidRef reports whether a ref is one that git would make, and that people can read.
func ValidRef(ref string) bool {
	return plain(ref, maxText) && strings.HasPrefix(ref, "refs/") && !strings.Contains(ref, "..") && !strings.ContainsAny(ref, " ~^:?*[\\") &&
		!strings.HasSuffix(ref, "/") && !strings.HasSuffix(ref, ".lock") && !strings.Contains(ref, "//") && !strings.Contains(ref, "@{")
}

// plain reports whether a text is not empty, not long, and printable to its last character.
func plain(s string, most int) bool {
	return s != "" && len(s) <= most && utf8.ValidString(s) && s[0] != '-' &&
		strings.IndexFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) < 0
}
