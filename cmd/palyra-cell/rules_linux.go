package main

import (
	"errors"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// rules is a Landlock ruleset in the making; made holds the rules that are in it so far.
type rules struct {
	made    cell.Landlock
	ruleset int // -1: not made yet
}

// prepareRules makes the rules of a Spec before there is a run for them.
func (r *rules) prepareRules(f *os.File) failure {
	defer func() { _ = f.Close() }()
	s, err := cell.ReadSpec(f)
	if err != nil {
		return failure{step: "prepare", errno: unix.EINVAL, text: err.Error()}
	}
	r.forget()
	return r.complete(&s.Landlock)
}

// complete makes the ruleset that want asks for, and uses the one made ahead if its rules are the
// beginning of want. Signals are always scoped where the kernel can: the supervisor's own hand
// shares the outer domain, and nothing that runs in the cell may reach it.
func (r *rules) complete(want *cell.Landlock) failure {
	l := *want
	if landlockABI() >= scopeABI {
		l.Scoped |= unix.LANDLOCK_SCOPE_SIGNAL
	}
	if !r.begins(&l) {
		r.forget()
		ruleset, err := newRuleset(l.FS, l.Net, l.Scoped)
		if err != nil {
			return failure{step: "landlock", errno: number32(err), text: "ruleset"}
		}
		r.ruleset = ruleset
	}
	for i := len(r.made.Rules); i < len(l.Rules); i++ {
		rule := &l.Rules[i]
		if rule.Path == cell.OwnProcess {
			continue // the launcher adds it: here it would be the supervisor's
		}
		err := allow(r.ruleset, rule.Path, rule.Access, rule.Plain)
		if err != nil && !(rule.Optional && absent(err)) {
			return failure{step: "landlock", errno: number32(err), text: "rule " + strconv.Itoa(i) + ": " + rule.Path}
		}
	}
	r.made = l
	return failure{}
}

// begins reports whether the rules made so far are the beginning of l's.
func (r *rules) begins(l *cell.Landlock) bool {
	m := &r.made
	return r.ruleset >= 0 && m.FS == l.FS && m.Net == l.Net && m.Scoped == l.Scoped &&
		len(m.Rules) <= len(l.Rules) && slices.Equal(m.Rules, l.Rules[:len(m.Rules)])
}

func (r *rules) forget() {
	if r.ruleset >= 0 {
		_ = unix.Close(r.ruleset)
	}
	*r = rules{ruleset: -1}
}

// absent reports whether there is nothing to allow, or nothing that this user could reach.
func absent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES)
}
