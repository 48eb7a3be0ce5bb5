package main

import (
	"os"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
	"palyra/internal/cell/ruleset"
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

// launch writes down for the launcher what it is to run, and has it become that. The rules' paths are opened here, while
// a root daemon's cell still is root: a program may be allowed below a directory whose parents it cannot pass. A failure
// without a step means success.
func (s *supervisor) launch(spec *cell.Spec, files []*os.File) failure {
	switch {
	case spec.Sealed != (len(files) == mostFDs):
		return failure{step: "spec", errno: unix.EBADF, text: "a sealed program comes with exactly one descriptor more"}
	case spec.Cover:
		return failure{step: "cover", errno: unix.ENOSYS, text: "there is no room to cover anything in"}
	}
	var rules ruleset.Set
	defer rules.Forget()
	if f := complete(&rules, &spec.Landlock); f.step != "" {
		return f
	}
	if err := s.launcher.Load(cell.LauncherImage(spec, !isAlready(spec.Identity))); err != nil {
		return failed("argv", "", err)
	}
	return failed("launcher", "", s.launcher.Send(s.link, rules.FD(), files[stdinFD:]))
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
	_ = cell.LauncherImage(&s, false)
	var r ruleset.Set
	_ = r.Complete(&s.Landlock)
	r.Forget()
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
