package bwrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
)

// bwrapOutput bounds what is kept of anything that bubblewrap says.
const bwrapOutput = 64 << 10

// exe names the opened program for execve.
func (b *Program) exe() string { return descriptor(b.file) }

// descriptor is the path of an open file.
func descriptor(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// ask runs bubblewrap for something that it tells by itself.
func (b *Program) ask(ctx context.Context, option string) (string, error) {
	var out clipped
	cmd := &exec.Cmd{Path: b.exe(), Args: []string{"bwrap", option}, Env: []string{}, Dir: "/", Stdout: &out}
	err := runWithin(ctx, cmd)
	return out.String(), err
}

// pipesWithin is how long what a killed command left may hold its output open.
const pipesWithin = time.Second

// runWithin runs a command and kills it when ctx ends, and what it started in any case: the child of a
// bubblewrap that dies while it builds waits for it for ever, with the output in its hands.
func runWithin(ctx context.Context, cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.WaitDelay = pipesWithin
	if err := cmd.Start(); err != nil {
		return err
	}
	killed := make(chan struct{})
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // it may have ended already
	stop := context.AfterFunc(ctx, func() { defer close(killed); kill() })
	awaitEnd(cmd.Process.Pid)
	if !stop() {
		<-killed
	}
	kill()            // what it left
	err := cmd.Wait() // from here on the number can be another group's
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// awaitEnd waits until a child has ended, and leaves it to be reaped: until then nobody else gets its number.
func awaitEnd(pid int) {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}

// Attr is who bubblewrap runs as: the workspace's owner, and in no other
// group. Only root can become that; anyone else is it already.
func Attr(uid, gid int64) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), Groups: []uint32{}}
	}
	return attr
}

// Try builds a room without a workspace once, as that user, with everything else that rooms have, and runs
// bubblewrap's own --version in it. What does not work is explained.
func (b *Program) Try(ctx context.Context, uid, gid int64) *palyra.Error {
	ctx, cancel := context.WithTimeout(ctx, bwrapWithin)
	defer cancel()
	a := &arguments{}
	defer a.cleanup()
	program := a.pass(b.file)
	if err := b.furnish(a, Room{UID: uid, GID: gid, Tmp: 1 << 20}); err != nil {
		return palyra.AsError(err)
	}
	argv, err := a.argv("/proc/self/fd/"+program, "--version")
	if err != nil {
		return palyra.AsError(err)
	}
	var out, said clipped
	cmd := &exec.Cmd{
		Path: b.exe(), Args: argv, Env: []string{}, Dir: "/", ExtraFiles: a.files,
		Stdout: &out, Stderr: &said, SysProcAttr: Attr(uid, gid),
	}
	err = runWithin(ctx, cmd)
	if err == nil && bwrapVersion.MatchString(out.String()) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("bwrap: the room said %q", out.String())
	}
	return explain(said.String(), err, lookAround("/proc", uid))
}

// clipped keeps the beginning of what is written to it.
type clipped struct{ buf bytes.Buffer }

// Write implements io.Writer and never fails: the writer must not die of us.
func (c *clipped) Write(p []byte) (int, error) {
	c.buf.Write(p[:min(len(p), bwrapOutput-c.buf.Len())])
	return len(p), nil
}

// String returns what was kept.
func (c *clipped) String() string { return strings.ToValidUTF8(c.buf.String(), "?") }
