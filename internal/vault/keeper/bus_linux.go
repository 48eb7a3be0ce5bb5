package keeper

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/godbus/dbus/v5"

	"palyra"
	"palyra/internal/sessionbus"
)

// dialBus connects to the session's bus. Without one the keeper is locked.
func dialBus(ctx context.Context, greet time.Duration) (*dbus.Conn, error) {
	bus, err := sessionbus.Dial(ctx, greet)
	absent, foreign := (*sessionbus.AbsentError)(nil), (*sessionbus.ForeignError)(nil)
	switch {
	case errors.As(err, &foreign):
		return nil, palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "the session bus belongs to uid %d, and the daemon to uid %d",
			foreign.UID, os.Geteuid()).WithRemedy("start the daemon in a session of its own user")
	case !errors.As(err, &absent):
		return bus, err
	case absent.Err == nil:
		return nil, locked("%s for the daemon", absent.Text).
			WithRemedy("start the daemon in your desktop session, where it is set: palyra down; palyra up")
	}
	return nil, locked("%s", absent.Text).WithRemedy("start the daemon again in your desktop session: palyra down; palyra up").
		WithCause(absent.Err)
}
