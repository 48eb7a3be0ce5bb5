package sandbox

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"palyra"
)

// privateDir is the private directory of a run.
//
// For a daemon that is root, home and tmp belong to the run's user; the directory itself and exe
// stay the daemon's, and that user's group may only pass through. So neither the program nor
// anything else of that user can put another file where a script was checked. For any other daemon
// all of it has one owner, and the backend keeps the program out of exe.
type privateDir struct {
	name string // in privateDirs
	path string // absolute, without links
	who  identity
}

// The parts of a private directory.
const (
	homeDir = "home"
	tmpDir  = "tmp"
	exeDir  = "exe"
)

// privateName is a new name that nobody can guess.
func privateName(call palyra.CallID) (string, error) {
	if !plainID(string(call)) {
		return "", palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the call's id cannot name a directory")
	}
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return string(call) + "-" + hex.EncodeToString(b[:]), nil
}

// isPrivateName reports whether a name has the form that privateName makes.
func isPrivateName(name string) bool {
	id, random, ok := strings.Cut(name, "-")
	return ok && plainID(id) && len(random) == 16 && strings.Trim(random, "0123456789abcdef") == ""
}

func plainID(s string) bool {
	const alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
	return s != "" && len(s) <= 64 && strings.Trim(s, alphabet) == ""
}
