// Package service has the commands that start and stop the daemon and show its state: up, down and status.
//
// No command but up starts a daemon. It is the program that was installed beside this one, never one found in PATH.
package service

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/config"
	"palyra/internal/show"
)

// Up is `palyra up`.
func Up(inv *invocation.Invocation) *cobra.Command {
	var u daemonStart
	cmd := &cobra.Command{
		Use: "up", Short: "Start the daemon", Args: syntax.Takes(),
		Long: "Starts the daemon and waits until it serves. On an empty state it makes you the\n" +
			"owner, with an operator key of your own. Without --detach it runs until Ctrl-C.\n" +
			"A state of which parts are gone is refused: put them back, or begin a new one with\n" +
			"--new-state, which renames what is there (NAME.before-TIME) and removes nothing.\n" +
			"Your operator key stays, if it is there.",
		Example: "  palyra up --detach\n  palyra up --set approvals.wait_ms=60000\n  palyra up --new-state",
		RunE: func(cmd *cobra.Command, _ []string) error {
			u.inv = inv
			return u.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVarP(&u.detach, "detach", "d", false, "leave the daemon running in the background")
	cmd.Flags().StringArrayVar(&u.settings, "set", nil, "KEY=VALUE: a setting of this start, stronger than any file")
	cmd.Flags().BoolVar(&u.anew, "new-state", false, "put the state that is there, or what is left of one, aside and begin a new one")
	u.patience = screen.SpanFlag(30 * time.Second)
	cmd.Flags().Var(&u.patience, "timeout", "how long to wait until it serves")
	return cmd
}

// daemonStart is one start of a daemon.
type daemonStart struct {
	inv      *invocation.Invocation
	paths    config.Paths
	detach   bool
	anew     bool
	keyless  bool // there is no operator key once it serves
	settings []string
	patience screen.SpanFlag
	log      string // log file of a detached daemon
}

func (u *daemonStart) run(ctx context.Context) error {
	if err := u.checkSettings(); err != nil {
		return err
	}
	program, err := invocation.FindDaemon()
	if err != nil {
		return err
	}
	if err := u.refuseSecond(ctx); err != nil {
		return err
	}
	if err := u.paths.Make(); err != nil {
		return err
	}
	first := u.anew || !filled(u.paths.State)
	child, err := u.start(program)
	if err != nil {
		return err
	}
	status, err := u.ready(ctx, child)
	if err != nil {
		child.stop()
		return err
	}
	_, missing := os.Lstat(u.paths.OperatorKey)
	u.keyless = missing != nil
	if err := u.greet(status, first); err != nil {
		return err
	}
	u.offerConsole(ctx, status)
	if u.detach {
		return nil
	}
	return child.wait(ctx)
}

// offerConsole shows a person at the terminal the link that signs a browser in. A log or another program gets none: it is a
// secret for two minutes.
func (u *daemonStart) offerConsole(ctx context.Context, s client.Status) {
	if s.Console == "" || !u.inv.Interactive() {
		return
	}
	c, err := u.inv.Operator()
	if err != nil {
		return // status and 'palyra console' say why
	}
	defer c.Close()
	link, ends, err := c.OpenConsole(ctx)
	if err != nil {
		u.inv.Say("\nNo link to the console: %s", show.Line(palyra.AsError(err).Text))
		return
	}
	u.inv.Say("\nThe console, for one browser on this machine, until %s ('palyra console' prints another):\n  %s",
		screen.Stamp(ends), show.Line(link))
}

// filled reports whether a file exists and is not empty.
func filled(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Size() > 0
}

// checkSettings refuses a --set that the daemon would refuse, before anything is started, and finds
// the paths as the daemon will.
func (u *daemonStart) checkSettings() error {
	flags := map[string]string{}
	for _, s := range u.settings {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			return exit.Usagef("--set %q is not KEY=VALUE", s)
		}
		flags[key] = value
	}
	c, err := config.Load(config.Options{Home: u.inv.Home, Env: u.inv.Env, Flags: flags})
	u.paths = c.Paths
	return err
}

// refuseSecond refuses a second daemon on the same state. The daemon's own lock does so in any
// case; this only reports it sooner.
func (u *daemonStart) refuseSecond(ctx context.Context) error {
	c, err := u.inv.Operator()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, done := context.WithTimeout(ctx, 2*time.Second)
	defer done()
	s, err := c.Status(ctx)
	if err != nil {
		return nil
	}
	return palyra.Errorf(palyra.Conflict, palyra.ReasonSecondDaemon, "a daemon is already running here: pid %d, since %s", s.PID,
		screen.Stamp(s.StartedAt)).
		WithRemedy("use it, or stop it with `palyra down`")
}

// start starts the program. A detached one has a session of its own and writes to a log; another
// one shares the terminal.
func (u *daemonStart) start(program string) (*child, error) {
	var args []string
	for _, s := range u.settings {
		args = append(args, "--set", s)
	}
	if u.anew {
		args = append(args, "--new-state")
	}
	cmd := exec.Command(program, args...)
	cmd.Env = slices.Clone(u.inv.Env)
	if u.paths.Home != "" {
		cmd.Env = append(cmd.Env, "PALYRA_HOME="+u.paths.Home)
	}
	if u.detach {
		u.log = filepath.Join(filepath.Dir(u.paths.State), invocation.DaemonName+".log")
		f, err := os.OpenFile(u.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, exit.Failedf(palyra.ReasonInternal, "cannot open the log: %v", err)
		}
		defer f.Close()
		cmd.Stdout, cmd.Stderr = f, f
		detached(cmd)
	} else {
		cmd.Stdout, cmd.Stderr = u.inv.Stderr, u.inv.Stderr // the daemon only logs; stdout is for our result
		attached(cmd)
	}
	if err := cmd.Start(); err != nil {
		return nil, exit.Failedf(palyra.ReasonInternal, "cannot start %s: %v", program, err)
	}
	c := &child{cmd: cmd, done: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// ready waits until the daemon serves.
func (u *daemonStart) ready(ctx context.Context, child *child) (client.Status, error) {
	c, err := u.inv.Operator()
	if err != nil {
		return client.Status{}, err
	}
	defer c.Close()
	patience := time.Duration(u.patience)
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for told := false; ; {
		s, err := c.Status(ctx)
		if err == nil && s.PID == int64(child.cmd.Process.Pid) {
			return s, nil
		}
		select {
		case <-child.done:
			return client.Status{}, u.died(child)
		case <-ctx.Done():
			if context.Cause(ctx) != context.DeadlineExceeded {
				return client.Status{}, ctx.Err()
			}
			return client.Status{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonTimedOut, "the daemon did not serve within %s",
				screen.Span(patience)).
				WithRemedy("%s", u.lookAt())
		case <-tick.C:
		}
		if !told {
			u.inv.Say("palyra: starting %s, waiting up to %s", invocation.DaemonName, screen.Span(patience))
			told = true
		}
	}
}

// lookAt says where the daemon's own messages are.
func (u *daemonStart) lookAt() string {
	if u.log == "" {
		return "see the messages above"
	}
	return "see " + u.log
}

// died is the error of a daemon that ended before it served, with its last message.
func (u *daemonStart) died(c *child) error {
	text, remedy := lastWords(u.log)
	if text == "" {
		text, remedy = "the daemon ended before it served", u.lookAt()
	}
	return exit.Failedf(palyra.ReasonInternal, "%s", text).WithRemedy("%s", remedy).WithCause(c.err)
}

// lastWords finds the daemon's last error in its log.
func lastWords(path string) (text, remedy string) {
	const enough = 8 << 10
	f, err := os.Open(path)
	if err != nil {
		return "", ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > enough {
		_, _ = f.Seek(-enough, io.SeekEnd)
	}
	raw, err := io.ReadAll(io.LimitReader(f, enough))
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimRight(line, "\n")
		if t, ok := strings.CutPrefix(line, invocation.DaemonName+": "); ok {
			text, remedy = t, ""
		} else if r, ok := strings.CutPrefix(line, "  remedy: "); ok && text != "" {
			remedy = r
		}
	}
	return text, remedy
}

// started is the result of a start.
type started struct {
	client.Status
	First       bool   `json:"first_start"`
	OperatorKey string `json:"operator_key"`
	Log         string `json:"log,omitempty"`
}

// greet prints where everything is and what to do next.
func (u *daemonStart) greet(s client.Status, first bool) error {
	return u.inv.Emit(started{s, first, u.paths.OperatorKey, u.log}, func(w io.Writer) {
		fmt.Fprintf(w, "palyra is up: pid %d\n", s.PID)
		printProblems(w, s)
		if u.inv.Quiet {
			return
		}
		screen.Fields(w, screen.Pair{"  Agent's door", s.AgentSocket},
			screen.Pair{"  Operator's door", s.OperatorSocket}, screen.Pair{"  Operator key", u.paths.OperatorKey},
			screen.Pair{"  Log", u.log})
		switch {
		case u.keyless:
			fmt.Fprintf(w, "\nThere is no operator key in that place: nothing can be signed from here.\n"+
				"Put it back, or use another operator's key or device.\n")
		case first:
			fmt.Fprintf(w, "\nThis is the first start: you are the owner, and the operator key above is yours.\n"+
				"Any program that runs as you can read it; `palyra operator protect` puts it behind\na passphrase.\n")
		}
		switch s.Pending {
		case 0:
		case 1:
			fmt.Fprintf(w, "\nOne question is waiting for an answer: palyra approvals list --pending\n")
		default:
			fmt.Fprintf(w, "\n%d questions are waiting for an answer: palyra approvals list --pending\n", s.Pending)
		}
		fmt.Fprintf(w, "\nNext:\n"+
			"  palyra tools call palyra.echo --input '{\"text\":\"hello\"}'\n"+
			"  palyra workspace add DIR       a directory for agents to work in, not your home\n"+
			"  palyra approvals watch\n"+
			"  palyra console pair            the same in a browser\n")
	})
}
