package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
)

func (a *app) down() *cobra.Command {
	patience := spanFlag(30 * time.Second)
	cmd := &cobra.Command{
		Use: "down", Short: "Stop the daemon in good order", Args: takes(),
		Long: "Asks the daemon to stop, signed with your operator key, and waits until it has.\n" +
			"Open questions stay open; a start goes on with them. Where no daemon runs there is\n" +
			"nothing to do, which is no error.",
		Example: "  palyra down\n  palyra down --timeout 2m",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.Status(ctx)
			if err != nil && palyra.AsError(err).Reason == client.ReasonNoDaemon {
				return a.emit(map[string]any{"pid": 0, "stopped": false}, func(w io.Writer) { fmt.Fprintln(w, "no daemon runs") })
			}
			if err != nil {
				return err
			}
			if err := c.Shutdown(ctx); err != nil {
				return err
			}
			if err := gone(ctx, c, int(s.PID), time.Duration(patience)); err != nil {
				return err
			}
			return a.emit(map[string]any{"pid": s.PID, "stopped": true}, func(w io.Writer) { fmt.Fprintf(w, "palyra is down: pid %d has stopped\n", s.PID) })
		}),
	}
	cmd.Flags().Var(&patience, "timeout", "how long to wait until it has stopped")
	return cmd
}

// gone waits until nobody listens and the process has ended: before that the
// state is still its own and a new daemon would be refused.
func gone(ctx context.Context, c *client.Client, pid int, patience time.Duration) error {
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := c.Health(ctx); err != nil && palyra.AsError(err).Reason == client.ReasonNoDaemon && !alive(pid) {
			return nil
		}
		select {
		case <-ctx.Done():
			return palyra.Errorf(palyra.Unavailable, palyra.ReasonTimedOut, "the daemon did not stop within %s", span(patience)).
				WithRemedy("look at `palyra status` and its log")
		case <-tick.C:
		}
	}
}
