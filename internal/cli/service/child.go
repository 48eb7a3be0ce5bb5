package service

import (
	"context"
	"errors"
	"os/exec"
	"time"

	"palyra"
	"palyra/internal/cli/exit"
)

// child is a daemon that this command started.
type child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // its exit error; valid after done
}

// stopPatience is how long a daemon may take to stop in good order.
const stopPatience = 10 * time.Second

// stop ends the daemon and waits for its end.
func (c *child) stop() {
	_ = pleaseStop(c.cmd.Process)
	select {
	case <-c.done:
	case <-time.After(stopPatience):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
}

// wait returns when the daemon has ended. The end of ctx stops it.
func (c *child) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		c.stop()
		return nil
	case <-c.done:
	}
	var status *exec.ExitError
	if errors.As(c.err, &status) {
		return exit.Failedf(palyra.ReasonInternal, "the daemon ended: %v", status).WithRemedy("see its messages above")
	}
	return c.err
}
