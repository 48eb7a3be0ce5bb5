package ruleset

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// Set is a ruleset in the making. Its zero value has none.
type Set struct {
	made cell.Landlock // the rules that are in it so far
	fd   int
	some bool
}

// Fault is a ruleset that the kernel does not take.
type Fault struct {
	What string // the ruleset, or which rule
	Err  error
}

func (f *Fault) Error() string { return f.What + ": " + f.Err.Error() }

// Unwrap returns the kernel's error.
func (f *Fault) Unwrap() error { return f.Err }

// FD is its descriptor; -1: there is none.
func (s *Set) FD() int {
	if !s.some {
		return -1
	}
	return s.fd
}

// Complete makes the ruleset that want asks for, and uses the one made ahead if its rules are the beginning of want.
// Signals are always scoped where the kernel can: a supervisor's own hand shares the outer domain, and nothing that
// runs in the cell may reach it. A rule about the program's own process is left to who becomes it.
func (s *Set) Complete(want *cell.Landlock) error {
	l := *want
	if ABI() >= ScopeABI {
		l.Scoped |= unix.LANDLOCK_SCOPE_SIGNAL
	}
	if !s.begins(&l) {
		s.Forget()
		fd, err := New(l.FS, l.Net, l.Scoped)
		if err != nil {
			return &Fault{"ruleset", err}
		}
		s.fd, s.some = fd, true
	}
	for i := len(s.made.Rules); i < len(l.Rules); i++ {
		rule := &l.Rules[i]
		if rule.Path == cell.OwnProcess {
			continue // here it would be this process's
		}
		err := Allow(s.fd, rule.Path, rule.Access, rule.Plain)
		if err != nil && !(rule.Optional && absent(err)) {
			s.Forget() // rules that are not in made could be in it
			return &Fault{fmt.Sprintf("rule %d: %s", i, rule.Path), err}
		}
	}
	s.made = l
	return nil
}

// begins reports whether the rules made so far are the beginning of l's.
func (s *Set) begins(l *cell.Landlock) bool {
	m := &s.made
	return s.some && m.FS == l.FS && m.Net == l.Net && m.Scoped == l.Scoped &&
		len(m.Rules) <= len(l.Rules) && slices.Equal(m.Rules, l.Rules[:len(m.Rules)])
}

// Forget closes the ruleset.
func (s *Set) Forget() {
	if s.some {
		_ = unix.Close(s.fd)
	}
	*s = Set{}
}

// absent reports whether there is nothing to allow, or nothing that this user could reach.
func absent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES)
}
