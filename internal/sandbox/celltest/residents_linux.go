package celltest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Resident is who a room is for, in tests: as root for an ordinary user and for root itself,
// as an ordinary user for oneself.
type Resident struct {
	Name     string
	UID, GID int64
}

// OrdinaryResident is the user that tests of root start rooms for.
func OrdinaryResident() Resident {
	s := Resident{Name: "user", UID: 65534, GID: 65534}
	if uid, gid, err := Ordinary(); err == nil {
		s.UID, s.GID = int64(uid), int64(gid)
	}
	return s
}

// Residents are all that this process can build rooms for.
func Residents() []Resident {
	if os.Geteuid() != 0 {
		return []Resident{{Name: "self", UID: int64(os.Geteuid()), GID: int64(os.Getegid())}}
	}
	return []Resident{OrdinaryResident(), {Name: "root", UID: 0, GID: 0}}
}

// EachResident runs a test for all of them.
func EachResident(t *testing.T, f func(t *testing.T, s Resident)) {
	t.Helper()
	for _, s := range Residents() {
		t.Run(s.Name, func(t *testing.T) { f(t, s) })
	}
}

// Tries is how often something is tried that shows only now and then: a third here, all with 'make faults'.
func Tries(all int) int {
	if os.Getenv("PALYRA_FAULTS") == "full" {
		return all
	}
	return all / 3
}

// MustWrite writes a file and the directories above it.
func MustWrite(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}
