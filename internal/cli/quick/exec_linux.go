package quick

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cli/processargs"
	"palyra/internal/config/home"
	"palyra/internal/subpath"
)

// patience is how long a command may take until it is left to the full program, which passes its output on as it comes.
const patience = 150 * time.Millisecond

// outputFailed is the exit code of a command whose output could not be written.
const outputFailed = 125

// unread is how a shell says that a program wrote into a pipe that nobody reads any more.
const unread = 141

// execute runs a command through the gate.
func execute(p Process, dir string, argv []string, stdout, stderr io.Writer) Answer {
	catching := make(chan chan os.Signal, 1)
	go func() { catching <- catch() }() // each takes two turns of a thread of its own, and what follows has to read files
	_, err := Find(FullName)
	c := (*conn)(nil)
	if err == nil { // nothing is begun that could not be gone on with
		c, err = dial(dir, p.Env)
	}
	signals := <-catching
	if err != nil {
		return Answer{Full: p.Args}
	}
	end, err := c.propose(argv, func() bool { return len(signals) > 0 })
	switch {
	case err != nil && !c.taping: // nothing was proposed
		c.close()
		if len(signals) > 0 {
			return Answer{Code: interrupted}
		}
		return Answer{Full: p.Args}
	case err != nil || shownOnTerminal(end, stdout, stderr):
		return c.handOver(p, argv, signals, stderr)
	}
	switch err := end.print(stdout, stderr); {
	case errors.Is(err, unix.EPIPE):
		return Answer{Code: unread}
	case err != nil:
		fmt.Fprintf(stderr, "palyra: the output cannot be written: %v\n", err)
		return Answer{Code: outputFailed}
	}
	return Answer{Code: end.code}
}

// print prints what the command printed. A stream that cannot be written does not keep the other from being.
func (e ended) print(stdout, stderr io.Writer) (failed error) {
	broken := map[bool]bool{}
	for _, p := range e.printed {
		if broken[p.failing] {
			continue
		}
		if _, err := p.stream(stdout, stderr).Write(p.data); err != nil {
			broken[p.failing], failed = true, err
		}
	}
	return failed
}

// onItsWay is how long a signal that was delivered takes to be heard of.
const onItsWay = time.Millisecond

// handOver says how the full program goes on with a call that was proposed.
func (c *conn) handOver(p Process, argv []string, signals <-chan os.Signal, stderr io.Writer) Answer {
	tape, err := c.handOverTape()
	if err != nil {
		fmt.Fprintf(stderr, "palyra: the command was proposed and cannot be followed: %v\n", err)
		fmt.Fprintln(stderr, "  remedy: see what became of it: palyra calls list")
		return Answer{Code: outputFailed}
	}
	_, rest := p.home()
	args := append(slices.Clone(p.Args[:len(p.Args)-len(rest)]), "exec", fmt.Sprintf("--%s=%d,%d", AdoptFlag, c.fd, tape))
	signal.Reset() // from now on they end this process
	select {
	case s := <-signals:
		args = append(args, fmt.Sprintf("--%s=%s", SignalledFlag, unix.SignalName(s.(syscall.Signal))))
	case <-time.After(onItsWay):
	}
	return Answer{Full: append(append(args, "--"), argv...)}
}

// handOverTape makes the connection one that another program can go on with, and returns a descriptor of what was
// received by it.
func (c *conn) handOverTape() (int, error) {
	fd, err := unix.MemfdCreate("palyra-exec", 0)
	if err != nil {
		return -1, err
	}
	for b := c.tape; len(b) > 0; {
		n, err := unix.Write(fd, b)
		if err != nil {
			return -1, err
		}
		b = b[n:]
	}
	if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
		return -1, err
	}
	// Another number for it, which belongs to no file: the collector may close the first one before the program is another.
	own, err := unix.FcntlInt(uintptr(c.fd), unix.F_DUPFD, firstFree)
	runtime.KeepAlive(c.file)
	if err != nil {
		return -1, err
	}
	c.fd = own
	return fd, unix.SetNonblock(own, false)
}

// firstFree is the lowest number of a descriptor that is none of the three streams.
const firstFree = 3

// shownOnTerminal reports whether something printed goes to a terminal, where it has to be escaped.
func shownOnTerminal(e ended, stdout, stderr io.Writer) bool {
	return slices.ContainsFunc(e.printed, func(p piece) bool {
		f, ok := p.stream(stdout, stderr).(*os.File)
		return ok && terminal(int(f.Fd()))
	})
}

func terminal(fd int) bool {
	_, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	return err == nil
}

// hasInput reports whether stdin has something to read: it is neither closed, nor a terminal, nor the null device.
func hasInput() bool {
	var st, null unix.Stat_t
	if unix.Fstat(0, &st) != nil || terminal(0) {
		return false
	}
	return unix.Stat(os.DevNull, &null) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != null.Rdev
}

// propose proposes a command and waits for its end.
func (c *conn) propose(argv []string, interrupted func() bool) (end ended, err error) {
	if hasInput() {
		return end, errStrange
	}
	dir, cwd, err := c.place()
	if err != nil {
		return end, err
	}
	args, err := processargs.Encode(processargs.Arguments{Command: argv[0], Args: argv[1:], Cwd: cwd})
	if err != nil {
		return end, err
	}
	var msg []byte
	msg = appendBytes(msg, callTool, string(palyra.ToolProcessRun))
	msg = appendBytes(msg, callArguments, string(args))
	msg = appendBytes(msg, callWorkspace, dir)
	msg = appendBytes(msg, callDoor, string(palyra.SurfaceCLI))
	msg = appendTrue(msg, callStream)
	msg = appendTrue(msg, callTied)
	c.interrupted = interrupted
	var n news
	if err := c.stream("/palyra.v1.ToolService/CallTool", msg, n.hear); err != nil {
		return end, err
	}
	if !n.done {
		return end, errStrange
	}
	return n.ended, nil
}

// place is the workspace to work in, and the directory in it: as the full program finds them.
func (c *conn) place() (dir, cwd string, err error) {
	here, err := os.Getwd()
	if err != nil {
		return "", "", err
	}
	known, written := c.paths.Workspaces()
	if !written {
		if known, err = c.workspaces(); err != nil {
			return "", "", err
		}
	}
	real := here
	if to, err := filepath.EvalSymlinks(here); err == nil {
		real = to
	}
	if dir, cwd = subpath.Nearest(known, real); dir == "" {
		return here, ".", nil
	}
	return dir, cwd, nil
}

// workspaces asks which workspaces are registered.
func (c *conn) workspaces() (known []string, err error) {
	answer, err := c.unary("/palyra.v1.WorkspaceService/ListWorkspaces")
	if err != nil {
		return nil, err
	}
	err = fields(answer, func(number int, _ uint64, data []byte) error {
		if number != listedWorkspace {
			return errStrange
		}
		return fields(data, func(number int, _ uint64, data []byte) error {
			if number == workspacePath {
				known = append(known, string(data))
			}
			return nil
		})
	})
	return known, err
}

// dial connects to the daemon of a home, or of this user's own, at the door for calls that a person types.
func dial(dir string, env []string) (*conn, error) {
	vars := make(map[string]string, len(env))
	for _, pair := range env {
		if name, value, ok := strings.Cut(pair, "="); ok {
			vars[name] = value
		}
	}
	paths, err := home.Find(dir, vars)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(paths.Config); err == nil && (home.Foreign(info) != "" || info.Mode().Perm()&0o022 != 0) {
		return nil, errStrange // the full program says what is wrong with it
	}
	_, socket, err := paths.Sockets()
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(socket, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK || int(st.Uid) != os.Geteuid() && st.Uid != 0 {
		return nil, errors.New("quick: not a socket of ours")
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	c, err := newConn(fd, time.Now().Add(patience))
	if err != nil {
		return nil, err
	}
	c.paths = paths
	return c, nil
}
