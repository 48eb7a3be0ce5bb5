package sandboxtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// forAll are calls whose arguments make the kernel answer anybody with something
// else than EPERM; forRoot are those that look at privileges first.
var (
	forAll = strings.Fields(`mount umount2 chroot unshare unshare_user setns keyctl add_key request_key io_uring_setup io_uring_enter io_uring_register
		perf_event_open name_to_handle_at quotactl personality personality_high process_vm_readv process_vm_writev pidfd_getfd kcmp ptrace
		open_tree mount_setattr settimeofday clock_settime dnotify`)
	forRoot = strings.Fields(`pivot_root bpf userfaultfd open_by_handle_at kexec_load kexec_file_load init_module finit_module delete_module swapon swapoff
		reboot acct fanotify_init move_mount fsopen fsconfig fsmount fspick syslog sethostname setdomainname iopl ioperm lookup_dcookie`)
)

func systemCalls(t *testing.T, b *bench) {
	var all []denial
	for _, name := range forAll {
		all = append(all, denial{name, "syscall " + name, "EPERM", differs})
	}
	for _, name := range forRoot {
		all = append(all, denial{name, "syscall " + name, "EPERM|ENOSYS", unshown})
	}
	all = append(all,
		denial{"clone3", "syscall clone3", "ENOSYS", differs},
		denial{"a call that nobody knows", "syscall unknown", "ENOSYS", unshown},
		denial{"type into a terminal", "ioctl TIOCSTI", "EPERM", differs},
		denial{"type into a terminal by a number with high bits", "ioctl TIOCSTI_high", "EPERM", differs},
		denial{"paste into a console", "ioctl TIOCLINUX", "EPERM", differs},
		denial{"paste into a console by a number with high bits", "ioctl TIOCLINUX_high", "EPERM", differs},
	)
	b.file(t, "leased", "x")
	all = append(all, denial{"hold up whoever opens a file", "lease " + b.ws + "/leased", "EPERM", works})
	b.deny(t, all)
	cores(t, b)
	if os.Geteuid() == 0 {
		for i, v := range b.outsideAs(t, self(), callsOf(forRoot)) {
			switch v.Errno {
			case "EPERM":
				t.Errorf("control: %s: root is refused outside as well", forRoot[i])
			case "ENOSYS":
				t.Logf("UNPROVEN HERE: this kernel has no %s", forRoot[i])
			}
		}
	}
	namespaces(t, b)
}

// coresScript needs no other process: in tier B only the first may look at itself.
const coresScript = `ulimit -c 0 && ulimit -c unlimited
while read -r line; do case $line in *core*) echo $line;; esac; done < /proc/self/limits
read -r line < /proc/self/coredump_filter; echo $line
kill -SEGV $$`

// cores: a run leaves none, nor does anything of the host get one, whatever it sets.
func cores(t *testing.T, b *bench) {
	t.Helper()
	e := b.run(t, order{argv: []string{"sh", "-c", coresScript}})
	got := strings.Fields(e.stdout)
	if want := strings.Fields("Max core file size 1 1 bytes 00000000"); !slices.Equal(got, want) || e.Signal != "SIGSEGV" {
		t.Errorf("%q, signal %q, code %d: %s", got, e.Signal, e.Code, clip(e.stderr))
	}
	if found, _ := filepath.Glob(b.ws + "/core*"); len(found) > 0 {
		t.Errorf("it left %q", found)
	}
}

func callsOf(names []string) []string {
	ops := make([]string, len(names))
	for i, n := range names {
		ops[i] = "syscall " + n
	}
	return ops
}

func namespaces(t *testing.T, b *bench) {
	var all []denial
	for _, spaces := range []string{"user", "user+mount", "user+net", "user+pid+ipc+uts+cgroup"} {
		d := denial{"start a child in new namespaces: " + spaces, "namespace " + spaces, "EPERM", works}
		if v := b.outsideAs(t, b.who, []string{d.op})[0]; v.Errno != "" {
			t.Logf("UNPROVEN HERE: user namespaces cannot be made outside either: %s", v.Errno)
			d.control = unshown
		}
		all = append(all, d)
	}
	for _, space := range []string{"mount", "net", "pid", "ipc", "uts", "cgroup"} {
		all = append(all, denial{"start a child in a new namespace: " + space, "namespace " + space, "EPERM", worksRoot})
	}
	b.deny(t, all)
}

// foreignABIs: a call through another ABI ends the process; nothing else is safe, because its
// numbers mean other calls.
func foreignABIs(t *testing.T, b *bench) {
	for _, abi := range []string{"i386", "x32"} {
		if v := b.outsideAs(t, b.who, []string{"abi " + abi})[0]; v.Errno != "" {
			t.Logf("UNPROVEN HERE: this kernel has no %s door: %s", abi, v.Errno)
		}
		e := b.run(t, order{argv: []string{b.probe, "try", "abi", abi}})
		if e.Signal != "SIGSYS" || e.stdout != "" {
			t.Errorf("%s: signal %q, code %d, stdout %q", abi, e.Signal, e.Code, clip(e.stdout))
		}
	}
}
