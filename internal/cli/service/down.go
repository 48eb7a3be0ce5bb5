package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/durable"
	"palyra/internal/show"
)

// Down is `palyra down`.
func Down(inv *invocation.Invocation) *cobra.Command {
	s := stopping{inv: inv, patience: screen.SpanFlag(30 * time.Second)}
	cmd := &cobra.Command{
		Use: "down", Short: "Stop the daemon in good order", Args: syntax.Takes(),
		Long: "Asks the daemon to stop, signed with your operator key, and waits until it has.\n" +
			"Open questions stay open; a start goes on with them. Where no daemon runs there is\n" +
			"nothing to do, which is no error.\n\n" +
			"Where it cannot be asked that way (the disk is full, the key is gone, not safe or behind\n" +
			"a passphrase that nobody can type, no door answers), the daemon's process is sent SIGTERM, which is the\n" +
			"same stop without a signature: the user it runs as can always end it. That is said,\n" +
			"and stands in the journal where it can still be written.",
		Example: "  palyra down\n  palyra down --timeout 2m",
		RunE:    inv.AsOperator(s.run),
	}
	cmd.Flags().Var(&s.patience, "timeout", "how long to wait until it has stopped")
	return cmd
}

// stopping is one stop of a daemon.
type stopping struct {
	inv      *invocation.Invocation
	patience screen.SpanFlag
}

// The ways in which a daemon was stopped.
const (
	stopSigned = "signed"
	stopSignal = "signal"
)

// stopped is the result of a stop.
type stopped struct {
	PID     int64  `json:"pid"`
	Stopped bool   `json:"stopped"`
	How     string `json:"how,omitempty"` // signed or signal
	Why     string `json:"why,omitempty"` // why it was not stopped by a signed request
}

func (s *stopping) run(ctx context.Context, c *client.Client, _ []string) error {
	pid, err := s.ask(ctx, c)
	if err == nil {
		return s.end(ctx, c, stopped{PID: pid, Stopped: true, How: stopSigned})
	}
	if ctx.Err() != nil || s.inv.RemoteName() != "" {
		return err
	}
	if answered(err) {
		if e := palyra.AsError(err); e.Remedy == "" && pid > 0 {
			return e.WithRemedy("try again; the user it runs as can also end it with: kill -TERM %d", pid)
		}
		return err
	}
	holder, lost := s.holder(ctx, c)
	if holder == nil && lost == nil && palyra.AsError(err).Reason == client.ReasonNoDaemon {
		return s.inv.Emit(stopped{}, func(w io.Writer) { fmt.Fprintln(w, "no daemon runs") })
	}
	if holder == nil {
		return s.unproven(err, lost)
	}
	if lost := pleaseStop(holder); lost != nil {
		return exit.Failedf(palyra.ReasonPermission, "%s; and process %d cannot be sent SIGTERM: %v", palyra.AsError(err).Text, holder.Pid, lost).
			WithRemedy("stop it as the user it runs as, or as root").WithCause(err)
	}
	return s.end(ctx, c, stopped{PID: int64(holder.Pid), Stopped: true, How: stopSignal, Why: palyra.AsError(err).Text})
}

// answered reports whether an error is a final answer to the person: the wrong passphrase or none, a key that may
// not stop the daemon, a request too many. After those no signal is sent. All others mean that there is no key to
// sign with or no daemon to ask, and the daemon's own user can still end it by a signal.
func answered(err error) bool {
	switch palyra.AsError(err).Reason {
	case palyra.ReasonBadCredential, palyra.ReasonCancelled, palyra.ReasonPermission, palyra.ReasonRateLimited:
		return true
	}
	return false
}

// stopAsking is how long a daemon may take to identify itself.
const stopAsking = 10 * time.Second

// ask asks the daemon at its own door, signed, and returns its process id.
func (s *stopping) ask(ctx context.Context, c *client.Client) (int64, error) {
	st, err := s.look(ctx, c)
	if err != nil {
		return 0, err
	}
	pid := seenPID(ctx, c, st)
	return int64(pid), c.Shutdown(ctx) // this may ask for a passphrase first
}

// seenPID is the daemon's process id in this process's namespace, where the system tells; else the
// one that the daemon reports. 0: it cannot be seen from here.
func seenPID(ctx context.Context, c *client.Client, st client.Status) int {
	ctx, done := context.WithTimeout(ctx, stopAsking)
	defer done()
	if pid, err := c.DaemonPID(ctx); err == nil {
		return pid
	}
	return int(st.PID)
}

func (s *stopping) look(ctx context.Context, c *client.Client) (client.Status, error) {
	ctx, done := context.WithTimeout(ctx, stopAsking)
	defer done()
	return c.Status(ctx)
}

// holder is the process that holds the state, nil if there is none: the one that says so at its own
// door, else the one that has the state's lock. The daemon is asked again after a handle on the
// process was taken, so that a reused process id is noticed.
func (s *stopping) holder(ctx context.Context, c *client.Client) (*os.Process, error) {
	if st, err := s.look(ctx, c); err == nil && st.PID > 0 {
		pid := seenPID(ctx, c, st)
		if pid == 0 {
			return nil, &durable.UnprovenError{} // its process id is not known here, and its own number means another process
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			return nil, err
		}
		if again, err := s.look(ctx, c); err == nil && again.Instance == st.Instance && seenPID(ctx, c, again) == pid {
			return p, nil
		}
		_ = p.Release()
	}
	paths, err := s.inv.Paths()
	if err != nil {
		return nil, err
	}
	return durable.Holder(paths.State + ".lock")
}

// unproven is the error when the daemon could not be asked and no process can be shown to be it.
func (s *stopping) unproven(err, lost error) error {
	e := palyra.AsError(err)
	var u *durable.UnprovenError
	if errors.As(lost, &u) && u.PID > 0 {
		return exit.Failedf(e.Reason, "%s; and it cannot be shown that process %d is the daemon", e.Text, u.PID).
			WithRemedy("where the daemon was started, if `ps -p %d` shows palyrad, stop it with: kill -TERM %d", u.PID, u.PID).WithCause(err)
	}
	return exit.Failedf(e.Reason, "%s; and the daemon's process was not found", e.Text).
		WithRemedy("find palyrad with ps, where it was started if this is a container, and stop it with: kill -TERM PID").WithCause(err)
}

// end waits until the daemon is gone, and prints the result.
func (s *stopping) end(ctx context.Context, c *client.Client, r stopped) error {
	if r.How == stopSignal {
		s.inv.Say("palyra: not asked by a signature: %s\npalyra: sent SIGTERM to pid %d, the daemon of this state", show.Line(r.Why), r.PID)
	}
	if err := waitGone(ctx, c, int(r.PID), time.Duration(s.patience)); err != nil {
		return err
	}
	return s.inv.Emit(r, func(w io.Writer) { fmt.Fprintf(w, "palyra is down: pid %d has stopped\n", r.PID) })
}

// waitGone waits until nobody listens and the process has ended: before that it still holds the
// state, and a new daemon would be refused.
func waitGone(ctx context.Context, c *client.Client, pid int, patience time.Duration) error {
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := c.Health(ctx); err != nil && palyra.AsError(err).Reason == client.ReasonNoDaemon && (pid == 0 || !alive(pid)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return palyra.Errorf(palyra.Unavailable, palyra.ReasonTimedOut, "the daemon did not stop within %s", screen.Span(patience)).
				WithRemedy("look at `palyra status` and its log; kill -KILL %d ends it at once, and what ran is then told as unknown", pid)
		case <-tick.C:
		}
	}
}
