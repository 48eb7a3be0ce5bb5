package bwrap

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra"
)

// surroundings are the settings of a host that decide whether an ordinary user can have namespaces.
// Empty: the kernel does not have the setting.
type surroundings struct {
	maxUser  string // user.max_user_namespaces
	clone    string // kernel.unprivileged_userns_clone, of Debian's kernels
	apparmor string // kernel.apparmor_restrict_unprivileged_userns, of Ubuntu's
	users    bool   // the kernel knows user namespaces
	filtered bool   // a seccomp filter is on this process, as in a container
	root     bool   // bubblewrap ran as root, to whom Debian's and Ubuntu's settings do not apply
}

func lookAround(proc string, uid int64) surroundings {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(proc, name))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	}
	_, err := os.Lstat(filepath.Join(proc, "self/ns/user"))
	return surroundings{
		maxUser:  read("sys/user/max_user_namespaces"),
		clone:    read("sys/kernel/unprivileged_userns_clone"),
		apparmor: read("sys/kernel/apparmor_restrict_unprivileged_userns"),
		users:    err == nil,
		filtered: strings.Contains(read("self/status"), "Seccomp:\t2"),
		root:     uid == 0,
	}
}

// appArmorProfile lets bubblewrap, and only it, make user namespaces.
const appArmorProfile = `write this to /etc/apparmor.d/palyra-bwrap and run 'apparmor_parser -r /etc/apparmor.d/palyra-bwrap':
abi <abi/4.0>,
include <tunables/global>
profile palyra-bwrap /usr/bin/bwrap flags=(unconfined) {
  userns,
}`

// obstacle is a reason why a room cannot be built.
type obstacle struct {
	is           func(said string, s surroundings) bool
	text, remedy string
}

// obstacles are checked in order: settings first, which are certain, then bubblewrap's message.
var obstacles = []obstacle{
	{
		func(_ string, s surroundings) bool { return !s.users },
		"this kernel has no user namespaces",
		"use a kernel with CONFIG_USER_NS=y",
	},
	{
		func(_ string, s surroundings) bool { return s.maxUser == "0" },
		"user namespaces are switched off: user.max_user_namespaces is 0",
		"'sysctl -w user.max_user_namespaces=15000', and the same line in /etc/sysctl.d/ to keep it",
	},
	{
		func(_ string, s surroundings) bool { return s.clone == "0" && !s.root },
		"ordinary users may not make user namespaces: kernel.unprivileged_userns_clone is 0",
		"'sysctl -w kernel.unprivileged_userns_clone=1', and the same line in /etc/sysctl.d/ to keep it",
	},
	{
		func(said string, s surroundings) bool {
			return s.apparmor == "1" && !s.root && saysAny(said, "uid map", "RTM_NEW", "namespace", "Permission denied", "not permitted")
		},
		"AppArmor keeps bubblewrap from using user namespaces: kernel.apparmor_restrict_unprivileged_userns is 1",
		appArmorProfile,
	},
	{
		func(said string, _ surroundings) bool { return saysAny(said, "ENOSPC", "max_*_namespaces") },
		"no more namespaces can be made here: a limit in /proc/sys/user, or 32 of them inside each other",
		"raise user.max_user_namespaces, user.max_mnt_namespaces, user.max_pid_namespaces and user.max_net_namespaces",
	},
	{
		func(said string, _ surroundings) bool { return saysAny(said, "Can't mount proc") },
		"no /proc can be mounted in a room: the container around the daemon covers parts of its own",
		"start that container with an uncovered /proc (docker: --security-opt systempaths=unconfined; podman: --security-opt " +
			"unmask=ALL), or run palyrad outside of it",
	},
	{
		func(said string, s surroundings) bool {
			return s.filtered && saysAny(said, "namespace", "not permitted", "pivot_root", "mount")
		},
		"the container around the daemon forbids namespaces by a seccomp filter",
		"start that container with --security-opt seccomp=unconfined (and, with AppArmor, apparmor=unconfined), or run palyrad outside of it",
	},
	{
		func(said string, _ surroundings) bool { return saysAny(said, "does not support user namespaces") },
		"the kernel cannot make one of the namespaces of a room",
		"use a kernel with CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS, CONFIG_IPC_NS and CONFIG_UTS_NS",
	},
	{
		func(said string, _ surroundings) bool { return saysAny(said, "No permissions to creat") },
		"the system does not let bubblewrap make namespaces",
		"allow user namespaces (sysctl user.max_user_namespaces; on Debian kernel.unprivileged_userns_clone; security modules such as " +
			"SELinux and AppArmor)",
	},
}

func saysAny(said string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(said, w) })
}

// explain turns bubblewrap's failure into an error with a remedy.
func explain(said string, err error, s surroundings) *palyra.Error {
	for _, o := range obstacles {
		if o.is(said, s) {
			return unavailable("%s", o.text).WithRemedy("%s", o.remedy).WithCause(err)
		}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(said), "\n")
	if line == "" {
		return unavailable("bubblewrap built no room and does not say why").WithRemedy("see the daemon's log").WithCause(err)
	}
	return unavailable("bubblewrap cannot build a room: %s", Show(palyra.Clip(line, 200))).
		WithRemedy("'palyra sandbox doctor' tries again; see the daemon's log").WithCause(err)
}
