package main

import (
	"errors"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// The messages of the supervisor to the launcher, a byte each.
const (
	sayRun     = 'r' // with the descriptors below
	sayPrepare = 'p' // with the descriptor of a Spec
)

// The descriptors of a run, in this order.
const (
	specFD = iota
	stdinFD
	stdoutFD
	stderrFD
	programFD // only for a sealed program
	mostFDs
)

// launch waits for the supervisor's packet and becomes the program. Everything
// from here to exec runs on one thread: what is applied to it is what exec keeps.
func launch(errs io.Writer) int {
	runtime.LockOSThread()
	// When the machine runs out of memory the program goes first, not the daemon and not the supervisor. This is
	// written before the process becomes undumpable and its /proc files root's; a failure costs no protection.
	_ = setOOMScore("500")
	// Should the host's core pattern ignore the core limit, the dump holds nothing of the program's
	// memory. The program inherits the setting, and Landlock keeps it from changing it.
	_ = setOwn("coredump_filter", "0")
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return refuse(errs, "dumpable: "+err.Error())
	}
	if kind, err := unix.GetsockoptInt(cell.ControlFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		return refuse(errs, "descriptor 3 is not a cell's socket")
	}
	unix.CloseOnExec(cell.ControlFD)
	parent := unix.Getppid()
	cleared := bounding()
	if !expected(cell.ControlFD) {
		rehearse()
	}
	ahead := rules{ruleset: -1}
	fds, f := ahead.await(cell.ControlFD)
	if f.step == "" && fds == nil {
		return 0 // the supervisor is gone without an order
	}
	var p *program
	if f.step == "" {
		p, f = prepare(fds, &ahead)
	}
	switch {
	case f.step != "":
	case cleared != 0:
		f = failure{step: "capabilities", errno: cleared}
	default:
		p.parent = parent
		f.step, f.errno = p.become()
	}
	f.send()
	_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, refused, 0, 0)
	return refused
}

// expected reports whether a packet has come already, so that there is no time to lose.
func expected(link int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(link), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// await blocks until the descriptors of a run come, and prepares rules on the way when asked; nil
// without a failure means that no run will come.
func (r *rules) await(link int) ([]int, failure) {
	for {
		word, fds, err := receive(link)
		switch {
		case err != nil:
			return nil, failure{step: "receive", errno: number32(err)}
		case word == sayRun || fds == nil:
			return fds, failure{}
		case word != sayPrepare || len(fds) != 1:
			return nil, failure{step: "receive", errno: unix.EBADMSG}
		}
		if f := r.prepareRules(os.NewFile(uintptr(fds[0]), "spec")); f.step != "" {
			return nil, f
		}
	}
}

// receive blocks until a packet comes; without descriptors the supervisor is gone.
func receive(link int) (word byte, fds []int, err error) {
	buf, oob := make([]byte, 2), make([]byte, unix.CmsgSpace(mostFDs*4))
	for {
		n, oobn, flags, _, err := unix.Recvmsg(link, buf, oob, unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, nil, err
		case n == 0 && oobn == 0:
			return 0, nil, nil
		case n != 1 || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
			return 0, nil, unix.EMSGSIZE
		}
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil || len(messages) != 1 {
			return 0, nil, unix.EBADMSG
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		return buf[0], fds, err
	}
}

// prepare does whatever needs memory or may fail at leisure. The rules' paths are opened here,
// while a root daemon's launcher still is root: a program may be allowed below a directory whose
// parents it cannot pass. A failure without a step means success.
func prepare(fds []int, ahead *rules) (*program, failure) {
	if len(fds) <= stderrFD {
		return nil, failure{step: "receive", errno: unix.EBADMSG}
	}
	s, err := cell.ReadSpec(os.NewFile(uintptr(fds[specFD]), "spec"))
	if err != nil {
		return nil, failure{step: "spec", errno: unix.EINVAL, text: err.Error()}
	}
	if s.Sealed != (len(fds) == mostFDs) {
		return nil, failure{step: "spec", errno: unix.EBADF, text: "a sealed program comes with exactly one descriptor more"}
	}
	p := &program{spec: s, stdio: [3]int{fds[stdinFD], fds[stdoutFD], fds[stderrFD]}, sealed: -1}
	if s.Sealed {
		p.sealed = fds[programFD]
	}
	if s.Cover {
		return nil, failure{step: "cover", errno: unix.ENOSYS, text: "there is no room to cover anything in"}
	}
	if err := p.pointers(); err != nil {
		return nil, failure{step: "argv", errno: unix.EINVAL}
	}
	p.stays = isAlready(s.Identity)
	f := ahead.complete(&s.Landlock)
	if f.step == "" && s.Terminal {
		f = ahead.onTerminal(p.stdio[0])
	}
	p.ruleset = ahead.ruleset
	return p, f
}

// rehearse reads a Spec and makes a ruleset while there is time, so that the code and the memory
// for the real ones are loaded when they count. Nothing depends on it: a failure here happens
// again, and is reported, with the real ones.
func rehearse() {
	f, err := cell.WriteSpec(specimen())
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	s, err := cell.ReadSpec(f)
	if err != nil {
		return
	}
	_ = (&program{spec: s}).pointers()
	r := rules{ruleset: -1}
	_ = r.complete(&s.Landlock)
	r.forget()
}

// specimen is a Spec of a usual size.
func specimen() cell.Spec {
	s := cell.Spec{
		Version: cell.Version, Path: "/proc/self/exe", Argv: []string{"a"}, Env: []string{"A=1"}, Cwd: "/",
		Identity: &cell.Identity{}, Rlimits: []cell.Rlimit{{}}, Filter: make([]byte, 4096),
		Landlock: cell.Landlock{FS: unix.LANDLOCK_ACCESS_FS_EXECUTE, Rules: make([]cell.Rule, 64)},
		Watch:    cell.Watch{Counters: cell.Counters{OOM: "/a"}},
	}
	for i := range s.Landlock.Rules {
		s.Landlock.Rules[i] = cell.Rule{Path: "/usr/lib", Access: unix.LANDLOCK_ACCESS_FS_EXECUTE, Optional: true}
	}
	return s
}

// setOOMScore says how much the kernel should prefer this process when it needs memory back.
func setOOMScore(value string) error { return setOwn("oom_score_adj", value) }

// setOwn writes a setting of this process.
func setOwn(name, value string) error {
	fd, err := unix.Open("/proc/self/"+name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	_, err = unix.Write(fd, []byte(value))
	return err
}
