package cells

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

var arches = []*arch.Info{arch.X86_64, arch.AARCH64}

// ask runs the program as the kernel would. The machine of x/net/bpf reads
// big-endian words, so the data is written as such.
func ask(t *testing.T, vm *bpf.VM, id arch.AuditArch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[numberAt:], nr)
	binary.BigEndian.PutUint32(data[archAt:], uint32(id))
	for i, a := range args {
		binary.BigEndian.PutUint32(data[argsAt+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[argsAt+8*i+4:], uint32(a>>32))
	}
	out, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(out)
}

func machine(t *testing.T, a *arch.Info, abi int) *bpf.VM {
	t.Helper()
	prog, err := filter(a, Subject{abi: abi, Owner: 1000, Group: 1001})
	if err != nil {
		t.Fatal(err)
	}
	vm, err := bpf.NewVM(prog)
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

// TestEveryNumber asks for every number that could be: the program must say what
// the lists say, and ENOSYS for all others.
func TestEveryNumber(t *testing.T) {
	for _, a := range arches {
		vm, all := machine(t, a, 7), answers(a, Subject{abi: 7, Owner: 1000, Group: 1001})
		for nr := range uint32(1200) {
			want, listed := all[nr]
			if !want.constant() {
				continue
			}
			if !listed {
				want.is = answerNoSys
			}
			if got := ask(t, vm, a.ID, nr); got != want.is {
				t.Errorf("%s %d (%s): %#x, want %#x", a.Name, nr, a.SyscallNumbers[int(nr)], got, want.is)
			}
		}
		if got := ask(t, vm, a.ID, 0x3fffffff); got != answerNoSys {
			t.Errorf("%s: a far number: %#x", a.Name, got)
		}
	}
}

func TestForeignABI(t *testing.T) {
	for _, a := range arches {
		vm := machine(t, a, 7)
		for _, id := range []arch.AuditArch{arch.I386.ID, arch.ARM.ID, arch.X86_64.ID, arch.AARCH64.ID, 0} {
			if got := ask(t, vm, id, 3); id != a.ID && got != answerKill {
				t.Errorf("%s: architecture %#x: %#x", a.Name, id, got)
			}
		}
	}
	if got := ask(t, machine(t, arch.X86_64, 7), arch.X86_64.ID, x32Bit|39); got != answerKill {
		t.Errorf("x32: %#x", got)
	}
}

func TestGuards(t *testing.T) {
	const high = 0xdead << 32
	for _, c := range []struct {
		name string
		args []uint64
		want uint32
	}{
		{"clone", []uint64{unix.CLONE_VM | unix.CLONE_THREAD}, answerAllow},
		{"clone", []uint64{unix.CLONE_NEWNET}, answerPerm},
		{"clone", []uint64{high | unix.CLONE_NEWUSER | unix.CLONE_VM}, answerPerm},
		{"ioctl", []uint64{0, unix.TCGETS}, answerAllow},
		{"ioctl", []uint64{0, high | unix.TIOCSTI}, answerPerm},
		{"ioctl", []uint64{0, unix.TIOCCONS}, answerPerm},
		{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_NONBLOCK}, answerAllow},
		{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, answerAllow},
		{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, answerPerm},
		{"socketpair", []uint64{unix.AF_INET, unix.SOCK_STREAM}, answerPerm},
		{"personality", []uint64{0}, answerAllow},
		{"personality", []uint64{0xffffffff}, answerAllow},
		{"personality", []uint64{8}, answerPerm},
		{"openat", []uint64{0, 1, unix.O_RDONLY, 0o4755}, answerAllow}, // no file is made: the mode is noise
		{"openat", []uint64{0, 1, unix.O_CREAT, 0o755}, answerAllow},
		{"openat", []uint64{0, 1, unix.O_CREAT, 0o4755}, answerPerm},
		{"openat", []uint64{0, 1, unix.O_TMPFILE, 0o4755}, answerPerm},
		{"openat", []uint64{0, 1, unix.O_DIRECTORY, 0o4755}, answerAllow},
		{"fchmod", []uint64{3, 0o2755}, answerPerm},
		{"fchmod", []uint64{3, 0o4755}, answerPerm},
		{"fchmodat2", []uint64{3, 1, 0o6755}, answerPerm},
		{"fchown", []uint64{3, 1000, 1001}, answerAllow},
		{"fchown", []uint64{3, 0xffffffffffffffff, 1001}, answerAllow},
		{"fchown", []uint64{3, 1000, 0}, answerPerm},
		{"fchownat", []uint64{3, 1, 0, 1001}, answerPerm},
		{"prlimit64", []uint64{0, unix.RLIMIT_NOFILE, 0xabc}, answerAllow},
		{"prlimit64", []uint64{77, unix.RLIMIT_NOFILE, 0}, answerAllow}, // only reads
		{"prlimit64", []uint64{77, unix.RLIMIT_NOFILE, 0xabc}, answerPerm},
		{"prlimit64", []uint64{77, unix.RLIMIT_NOFILE, 0xabc << 32}, answerPerm}, // a pointer has 64 bits
		{"prlimit64", []uint64{0, markLimit, 0xabc}, answerPerm},
		{"setrlimit", []uint64{markLimit}, answerPerm},
		{"setrlimit", []uint64{unix.RLIMIT_NOFILE}, answerAllow},
		{"setrlimit", []uint64{high | unix.RLIMIT_CORE}, answerDone},
		{"prlimit64", []uint64{0, unix.RLIMIT_CORE, 0xabc, 0}, answerDone},
		{"prlimit64", []uint64{0, unix.RLIMIT_CORE, 0, 0xabc}, answerAllow}, // only reads
		{"prlimit64", []uint64{0, unix.RLIMIT_CORE, 0xabc, 0xabc << 32}, answerPerm},
		{"prlimit64", []uint64{77, unix.RLIMIT_CORE, 0xabc, 0}, answerPerm},
		{"prlimit64", []uint64{0, unix.RLIMIT_NOFILE, 0xabc, 0xabc}, answerAllow},
		{"fcntl", []uint64{3, unix.F_SETLK}, answerAllow},
		{"fcntl", []uint64{3, unix.F_SETLEASE}, answerPerm},
		{"fcntl", []uint64{3, high | unix.F_SETLEASE}, answerPerm},
		{"fcntl", []uint64{3, unix.F_NOTIFY}, answerPerm},
		{"fcntl", []uint64{3, 1040}, answerPerm}, // F_SETDELEG: what a newer kernel adds is not let in unseen
		{"fcntl", []uint64{3, unix.F_DUPFD_CLOEXEC}, answerAllow},
		{"fallocate", nil, answerNoSup},
		{"personality", []uint64{noRandomize}, answerAllow},
		{"personality", []uint64{noRandomize | 0x0400000}, answerPerm},
		{"setpriority", []uint64{0, 0}, answerAllow},
		{"setpriority", []uint64{0, 5}, answerPerm},
		{"setpriority", []uint64{2, 0}, answerPerm}, // every process of the user
		{"sched_setaffinity", []uint64{0}, answerAllow},
		{"sched_setaffinity", []uint64{9}, answerPerm},
	} {
		for _, a := range arches {
			nr, ok := a.SyscallNames[c.name]
			if !ok {
				t.Errorf("%s does not know %s", a.Name, c.name)
			}
			if got := ask(t, machine(t, a, 7), a.ID, uint32(nr), c.args...); got != c.want {
				t.Errorf("%s %s%x: %#x, want %#x", a.Name, c.name, c.args, got, c.want)
			}
		}
	}
}

// TestRoomSockets: which sockets a run with a network of its own may make.
func TestRoomSockets(t *testing.T) {
	const high = 0xdead << 32
	for _, c := range []struct {
		name    string
		args    []uint64
		want    uint32
		wantsUx uint32 // with sockets of the file system
	}{
		{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0}, answerAllow, answerAllow},
		{"socket", []uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, answerAllow, answerAllow},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, answerPerm, answerPerm},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, answerPerm, answerPerm},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, 262}, answerPerm, answerPerm}, // MPTCP
		{"socket", []uint64{unix.AF_INET, unix.SOCK_RAW, 0}, answerPerm, answerPerm},
		{"socket", []uint64{high | unix.AF_INET, high | unix.SOCK_RAW, 0}, answerPerm, answerPerm},
		{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE}, answerAllow, answerAllow},
		{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, answerPerm, answerPerm},
		{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, answerPerm, answerPerm},
		{"socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, answerPerm, answerAllow},
		{"socket", []uint64{unix.AF_UNIX, unix.SOCK_DGRAM, 0}, answerPerm, answerAllow},
		{"socket", []uint64{unix.AF_PACKET, unix.SOCK_RAW, 0}, answerPerm, answerPerm},
		{"socket", []uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, answerPerm, answerPerm},
		{"socket", []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, answerPerm, answerPerm},
		{"socket", []uint64{0, 0, 0}, answerPerm, answerPerm},
		{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, answerAllow, answerAllow},
		{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_DGRAM, 0}, answerPerm, answerAllow},
		{"connect", nil, answerAllow, answerAllow},
		{"inotify_add_watch", nil, answerPerm, answerPerm},
		{"setxattr", nil, answerAllow, answerAllow},
		{"shmget", nil, answerAllow, answerAllow},
		{"mq_open", nil, answerPerm, answerPerm},
		{"ptrace", nil, answerPerm, answerPerm},
		{"mount", nil, answerPerm, answerPerm},
		{"open_tree", nil, answerPerm, answerPerm},
		{"io_uring_setup", nil, answerPerm, answerPerm},
		{"clone3", nil, answerNoSys, answerNoSys},
	} {
		for _, a := range arches {
			for _, ux := range []bool{false, true} {
				prog, err := filter(a, Subject{abi: 7, Room: true, Unix: ux})
				if err != nil {
					t.Fatal(err)
				}
				vm, err := bpf.NewVM(prog)
				if err != nil {
					t.Fatal(err)
				}
				want := c.want
				if ux {
					want = c.wantsUx
				}
				if got := ask(t, vm, a.ID, uint32(a.SyscallNames[c.name]), c.args...); got != want {
					t.Errorf("%s %s%x, unix %v: %#x, want %#x", a.Name, c.name, c.args, ux, got, want)
				}
			}
		}
	}
}

// TestRoomOnlyAdds: whatever a run without a room may do, one with a room may
// too, and nothing that would lead out of it.
func TestRoomOnlyAdds(t *testing.T) {
	for _, a := range arches {
		without, with := answers(a, Subject{abi: 7}), answers(a, Subject{abi: 7, Room: true})
		more := slices.Concat(roomCalls, roomMemory, roomAttributes, []string{"socket"})
		for nr, old := range without {
			now, name := with[nr], a.SyscallNumbers[int(nr)]
			if changed := old.constant() != now.constant() || old.is != now.is; changed && !slices.Contains(more, name) ||
				slices.Contains(more, name) && now.constant() && now.is != answerAllow {
				t.Errorf("%s: %s: %+v, in a room %+v", a.Name, name, old, now)
			}
		}
		polled := answers(a, Subject{abi: 7, Room: true, Polled: true})
		for _, name := range roomMemory {
			if nr, ok := a.SyscallNames[name]; ok && polled[uint32(nr)].is != answerPerm {
				t.Errorf("%s: %s holds memory that nobody counts", a.Name, name)
			}
		}
		for _, name := range roomAttributes {
			if nr, ok := a.SyscallNames[name]; ok && polled[uint32(nr)].is != answerNoSup {
				t.Errorf("%s: %s holds memory that nobody counts", a.Name, name)
			}
		}
	}
}

// TestListsAreNames finds slips: a name that no architecture has, or that stands
// in two lists, of which one would silently win.
func TestListsAreNames(t *testing.T) {
	var all []string
	for _, l := range [][]string{allowed, refused, unsupportedCalls, absent, truncates, unmapped} {
		all = append(all, l...)
	}
	for n := range guarded(0, 0) {
		all = append(all, n)
	}
	slices.Sort(all)
	for i, n := range all {
		if i > 0 && all[i-1] == n {
			t.Errorf("%s is listed twice", n)
		}
		if !slices.ContainsFunc(arches, func(a *arch.Info) bool { _, ok := a.SyscallNames[n]; return ok }) {
			t.Errorf("%s is nobody's system call", n)
		}
	}
}

// TestOldKernels: without Landlock's right to truncate, the call is refused.
func TestOldKernels(t *testing.T) {
	nr := uint32(arch.X86_64.SyscallNames["truncate"])
	for abi, want := range map[int]uint32{1: answerPerm, 2: answerPerm, 3: answerAllow, 7: answerAllow} {
		if got := ask(t, machine(t, arch.X86_64, abi), arch.X86_64.ID, nr); got != want {
			t.Errorf("abi %d: %#x", abi, got)
		}
	}
}

// TestUnmappedMemory: what nobody but a cgroup counts needs one.
func TestUnmappedMemory(t *testing.T) {
	for polled, want := range map[bool]uint32{true: answerNoSys, false: answerAllow} {
		for _, a := range arches {
			if got := answers(a, Subject{Polled: polled})[uint32(a.SyscallNames["memfd_create"])]; got.is != want {
				t.Errorf("%s, polled %v: %#x", a.Name, polled, got.is)
			}
		}
	}
}

func TestFilterIsShort(t *testing.T) {
	for _, a := range arches {
		prog, err := filter(a, Subject{abi: 7, Room: true, Unix: true})
		if err != nil {
			t.Fatal(err)
		}
		b, err := raw(prog)
		if err != nil || len(b) != 8*len(prog) {
			t.Errorf("%s: %d bytes for %d instructions, %v", a.Name, len(b), len(prog), err)
		}
		if d := depth(prog, 0); d > 40 {
			t.Errorf("%s: %d instructions to an answer", a.Name, d)
		}
	}
}

// depth is the longest way through a program from an instruction on.
func depth(prog []bpf.Instruction, at int) int {
	switch i := prog[at].(type) {
	case bpf.RetConstant:
		return 1
	case bpf.Jump:
		return 1 + depth(prog, at+1+int(i.Skip))
	case bpf.JumpIf:
		return 1 + max(depth(prog, at+1+int(i.SkipTrue)), depth(prog, at+1+int(i.SkipFalse)))
	}
	return 1 + depth(prog, at+1)
}

// TestLongTree: a program whose halves are too far apart for a short jump.
func TestLongTree(t *testing.T) {
	all := map[uint32]answer{}
	for nr := range uint32(900) {
		all[nr] = answer{is: answerPerm}
		if nr%2 == 0 {
			all[nr] = answer{is: answerAllow}
		}
	}
	prog := append([]bpf.Instruction{bpf.LoadAbsolute{Off: numberAt, Size: 4}}, search(spans(all))...)
	vm, err := bpf.NewVM(prog)
	if err != nil {
		t.Fatal(err)
	}
	for nr := range uint32(1000) {
		want := answerNoSys
		if a, ok := all[nr]; ok {
			want = a.is
		}
		if got := ask(t, vm, 0, nr); got != want {
			t.Fatalf("%d: %#x, want %#x", nr, got, want)
		}
	}
}

func TestFilterRefusesUnknownArchitectures(t *testing.T) {
	if _, err := filter(arch.MIPS, Subject{}); err == nil {
		t.Error("a filter without a list of system calls")
	}
	for _, name := range []string{"riscv64", "386", ""} {
		if a, err := architecture(name); err == nil {
			t.Errorf("%q is %s", name, a.Name)
		}
	}
}
