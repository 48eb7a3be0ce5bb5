package bwrap

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/sandbox/celltest"
)

func TestBwrapExplains(t *testing.T) {
	fine := surroundings{maxUser: "15000", users: true}
	with := func(change func(s *surroundings)) surroundings {
		s := fine
		change(&s)
		return s
	}
	const denied = "bwrap: No permissions to creating new namespace, likely because the kernel does not allow non-privileged user namespaces."
	for name, c := range map[string]struct {
		said         string
		s            surroundings
		text, remedy string
	}{
		"no user namespaces": {denied, surroundings{}, "has no user namespaces", "CONFIG_USER_NS"},
		"switched off": {
			denied, with(func(s *surroundings) { s.maxUser = "0" }), "user.max_user_namespaces is 0",
			"sysctl -w user.max_user_namespaces=",
		},
		"Debian": {
			denied, with(func(s *surroundings) { s.clone = "0" }), "kernel.unprivileged_userns_clone is 0",
			"sysctl -w kernel.unprivileged_userns_clone=1",
		},
		"Ubuntu": {
			"bwrap: setting up uid map: Permission denied", with(func(s *surroundings) { s.apparmor = "1" }), "AppArmor",
			"profile palyra-bwrap /usr/bin/bwrap flags=(unconfined) {\n  userns,",
		},
		"Ubuntu's network": {
			"bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
			with(func(s *surroundings) { s.apparmor = "1" }), "AppArmor", "apparmor_parser -r",
		},
		"root, on Debian": {denied, with(func(s *surroundings) { s.clone, s.root = "0", true }), "does not let", "allow user namespaces"},
		"root, on Ubuntu": {denied, with(func(s *surroundings) { s.apparmor, s.root = "1", true }), "does not let", "allow user namespaces"},
		"a limit": {
			"bwrap: Creating new namespace failed, nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
			fine, "no more namespaces", "user.max_net_namespaces",
		},
		"a covered /proc": {
			"bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
			with(func(s *surroundings) { s.filtered = true }), "no /proc can be mounted", "systempaths=unconfined",
		},
		"a container's filter": {denied, with(func(s *surroundings) { s.filtered = true }), "seccomp", "seccomp=unconfined"},
		"an old kernel": {"bwrap: Creating new namespace failed, likely because the kernel does not support user namespaces.  " +
			"bwrap must be installed setuid on such systems.", fine, "cannot make one of the namespaces", "CONFIG_PID_NS"},
		"something else":     {denied, fine, "does not let", "allow user namespaces"},
		"unknown":            {"bwrap: the moon\nis full", fine, "the moon", "doctor"},
		"control characters": {"bwrap: \x1b[31mred", fine, `\x1b[31mred`, "doctor"},
		"silence":            {"", fine, "does not say why", "log"},
	} {
		cause := errors.New("exit status 1")
		no := explain(c.said, cause, c.s)
		if !strings.Contains(no.Text, c.text) || !strings.Contains(no.Remedy, c.remedy) || no.Reason != palyra.ReasonTierUnavailable ||
			!errors.Is(no, cause) {
			t.Errorf("%s: %q, %q", name, no.Text, no.Remedy)
		}
	}
	if no := explain(strings.Repeat("x", 1<<16), nil, fine); len(no.Text) > 400 {
		t.Errorf("a text of %d bytes", len(no.Text))
	}
}

func TestBwrapLooksAround(t *testing.T) {
	proc := t.TempDir()
	if got := lookAround(proc, 1); got != (surroundings{}) {
		t.Errorf("an empty /proc: %+v", got)
	}
	for name, text := range map[string]string{
		"sys/user/max_user_namespaces": "0\n", "sys/kernel/unprivileged_userns_clone": "1\n",
		"sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
		"self/ns/user": "", "self/status": "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n",
	} {
		celltest.MustWrite(t, filepath.Join(proc, name), text, 0o644)
	}
	if got, want := lookAround(proc, 1), (surroundings{maxUser: "0", clone: "1", apparmor: "1", users: true, filtered: true}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := lookAround("/proc", 1); !got.users || got.maxUser == "" {
		t.Errorf("here: %+v", got)
	}
}
