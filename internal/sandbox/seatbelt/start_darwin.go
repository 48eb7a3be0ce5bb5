package seatbelt

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/seal"
)

// readyWithin is how long a profile may take to be applied.
const readyWithin = 30 * time.Second

// jobRun is a job on its way.
type jobRun struct {
	*Driver
	job    sandbox.Job
	place  place
	names  *seal.Matcher
	argv   []string
	env    []string
	record record
	held   []io.Closer // closed when the run is over
	tty    *os.File    // a second handle on the terminal, for its size
}

// start makes everything that a job needs, and starts it. On an error nothing of it stays.
func (b *Driver) start(ctx context.Context, j sandbox.Job) (_ *process, err error) {
	r := &jobRun{Driver: b, job: j}
	defer func() {
		if err != nil {
			r.clean()
		}
	}()
	if r.names, err = parseNames(j.Seals); err != nil {
		return nil, err
	}
	if r.place, err = layOut(b.config.Dir, j, b.uid == 0); err != nil {
		return nil, spawnFailed("the private directory of the run could not be made").WithCause(err)
	}
	if r.place.marks, err = look(ctx, j.Workspace, r.names, maxEntries); err != nil {
		return nil, err
	}
	if err = plainMarks(j.Workspace, r.place.marks); err != nil {
		return nil, err
	}
	r.place.pins = pinned(r.place.marks)
	if err = r.openDoors(); err != nil {
		return nil, err
	}
	if err = r.openTerminal(); err != nil {
		return nil, err
	}
	if err = r.write(); err != nil {
		return nil, err
	}
	return r.launch(ctx)
}

// plainMarks refuses sealed files with a second name, which their path cannot protect.
func plainMarks(workspace string, marks []mark) error {
	for _, m := range marks {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(workspace, m.Path), &st); err != nil {
			return sealDenied("the sealed path %q cannot be looked at", palyra.Clip(m.Path, 256)).WithRemedy("look at it").WithCause(err)
		}
		switch kind := st.Mode & unix.S_IFMT; {
		case kind == unix.S_IFLNK:
			return sealDenied("the sealed path %q is a symbolic link", palyra.Clip(m.Path, 256)).WithRemedy("replace it by what it leads to")
		case kind == unix.S_IFREG && st.Nlink > 1:
			return sealDenied("the sealed file %q has a second name", palyra.Clip(m.Path, 256)).WithRemedy("copy it, so that it has one name only")
		}
	}
	return nil
}

// openDoors opens the proxy's door on loopback, where its token keeps others out. Other doors stay closed. The
// same port of the other loopback address is taken as well: the profile cannot tell the two apart.
func (r *jobRun) openDoors() error {
	if len(r.job.Doors) == 0 {
		return nil
	}
	i, at := proxyDoor(r.job)
	if i < 0 {
		return spawnFailed("the guard has no proxy, which is the only door that macOS can open")
	}
	l4, l6, err := bothLoopbacks()
	if err != nil {
		return spawnFailed("no port of loopback could be taken").WithCause(err)
	}
	r.held = append(r.held, l6)
	r.place.proxy = uint16(l4.Addr().(*net.TCPAddr).Port)
	f, err := l4.File()
	_ = l4.Close() // f is a handle of its own
	if err != nil {
		return spawnFailed("the door cannot be handed over").WithCause(err)
	}
	sockets := make([]*os.File, len(r.job.Doors))
	sockets[i] = f
	r.env = r.place.environment(r.job.Env, at)
	return r.job.Open(sockets)
}

// tries is how many ports are tried for one that is free on both addresses.
const tries = 32

func bothLoopbacks() (l4, l6 *net.TCPListener, err error) {
	for range tries {
		if l4, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
			return nil, nil, err
		}
		port := l4.Addr().(*net.TCPAddr).Port
		if l6, err = net.ListenTCP("tcp6", &net.TCPAddr{IP: net.IPv6loopback, Port: port}); err == nil {
			return l4, l6, nil
		}
		_ = l4.Close()
	}
	return nil, nil, err
}

// openTerminal finds out the run's own terminal.
func (r *jobRun) openTerminal() (err error) {
	if !r.job.Terminal {
		return nil
	}
	r.place.tty = r.job.Stdin.Name()
	fd, err := unix.FcntlInt(r.job.Stdin.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return spawnFailed("the terminal cannot be kept").WithCause(err)
	}
	r.tty = os.NewFile(uintptr(fd), r.place.tty)
	return nil
}

// write stores the profile, and the record for a later daemon.
func (r *jobRun) write() error {
	text, err := profile(r.job, r.place)
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.place.profile(), []byte(text), fileMode); err != nil {
		return spawnFailed("the profile cannot be written").WithCause(err)
	}
	if r.env == nil {
		r.env = r.place.environment(r.job.Env, "")
	}
	r.argv = command(r.job, r.place)
	r.record = record{Call: r.job.Call, Workspace: r.job.Workspace, Seals: r.job.Seals, Marks: r.place.marks}
	return r.note()
}

// note writes the record.
func (r *jobRun) note() error {
	b, err := r.record.encode()
	if err == nil {
		err = os.WriteFile(r.place.root+recordSuffix, b, 0o600)
	}
	if err != nil {
		return spawnFailed("the run cannot be written down").WithCause(err)
	}
	return nil
}

// launch starts sandbox-exec and waits until the profile and the limits hold.
func (r *jobRun) launch(ctx context.Context) (*process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, spawnFailed("no pipe could be made").WithCause(err)
	}
	defer func() { _ = ours.Close() }()
	for _, f := range []*os.File{r.job.Stdin, r.job.Stdout, r.job.Stderr} {
		_ = unix.SetNonblock(int(f.Fd()), false) // programs expect blocking streams
	}
	p, err := os.StartProcess(sandboxExec, r.argv, &os.ProcAttr{
		Dir: r.job.Cwd, Env: r.env, Files: []*os.File{r.job.Stdin, r.job.Stdout, r.job.Stderr, theirs}, Sys: r.attributes(),
	})
	_ = theirs.Close()
	if err != nil {
		return nil, spawnFailed("sandbox-exec could not be started").WithCause(err)
	}
	proc, err := newProcess(r, p.Pid)
	if err != nil {
		_ = p.Kill()
		_, _ = p.Wait()
		return nil, spawnFailed("the process cannot be followed").WithCause(err)
	}
	if err := ready(ctx, ours); err != nil {
		proc.Stop(reasonOf(ctx), 0)
		exit, werr := proc.Wait()
		return nil, notReady(ctx, exit, errors.Join(err, werr))
	}
	return proc, nil
}

func (r *jobRun) attributes() *syscall.SysProcAttr {
	s := &syscall.SysProcAttr{Setsid: true}
	if r.job.Terminal {
		s.Setctty, s.Ctty = true, 0
	}
	if r.uid == 0 {
		s.Credential = &syscall.Credential{Uid: uint32(r.job.UID), Gid: uint32(r.job.GID)}
	}
	return s
}

// ready waits for readyByte.
func ready(ctx context.Context, ours *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = ours.SetReadDeadline(time.Now()) })
	defer stop()
	b := make([]byte, len(readyByte))
	if _, err := io.ReadFull(ours, b); err != nil {
		return errors.Join(err, ctx.Err())
	}
	if string(b) != readyByte {
		return errors.New("seatbelt: the shell says something else")
	}
	return nil
}

// notReady explains why a run did not begin. The program never ran: the byte comes before it.
func notReady(ctx context.Context, x sandbox.Exit, err error) error {
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), err)
	}
	why := "it ended with code " + strconv.Itoa(x.Code)
	switch x.Code {
	case 65:
		why = "this macOS does not take the profile"
	case 71:
		why = "the profile could not be applied; palyrad may be in a sandbox itself"
	case 125:
		why = "the limits could not be set"
	}
	return spawnFailed("sandbox-exec did not come to the program: %s", why).WithCause(err)
}

// reasonOf is the Runner's name for the end of a context.
func reasonOf(ctx context.Context) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "wall_clock"
	}
	return "cancelled"
}

// clean removes what a run leaves.
func (r *jobRun) clean() {
	for _, c := range r.held {
		_ = c.Close()
	}
	if r.tty != nil {
		_ = r.tty.Close()
	}
	if r.place.root == "" {
		return
	}
	if err := errors.Join(os.RemoveAll(r.place.root), remove(r.place.root+recordSuffix)); err != nil {
		r.config.Log.Warn("the private directory of a run could not be removed", "dir", r.place.root, "err", err)
	}
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
