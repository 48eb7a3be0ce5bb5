package client

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"syscall"

	"connectrpc.com/connect"

	"palyra"
	"palyra/internal/address"
	"palyra/internal/rpc/wire"
)

// Reasons that only a client knows.
const (
	// ReasonNoDaemon means that nobody listens.
	ReasonNoDaemon palyra.Reason = "no_daemon"
	// ReasonOutOfReach means that this process may not connect, so that it is not known whether a daemon listens.
	ReasonOutOfReach palyra.Reason = "daemon_out_of_reach"
	// ReasonConnectionLost means that the daemon went away before it answered.
	ReasonConnectionLost palyra.Reason = "connection_lost"
)

// dial connects to the daemon's socket, which is looked up each time.
func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if c.cfg.Remote != nil {
		return c.cfg.Remote.dial(ctx)
	}
	path, err := c.cfg.socket()
	if err != nil {
		return nil, err
	}
	if err := ownSocket(path); err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil && ctx.Err() == nil {
		return nil, noDaemon(path, err)
	}
	return conn, err
}

// socket finds the socket of the door: run/addr names the directory of the sockets when they are not in run itself.
// A home that is a copy has no daemon: the address in it is that of the original's daemon.
func (cfg Config) socket() (path string, err error) {
	switch {
	case cfg.Find != nil:
		path, err = cfg.Find()
	case cfg.Socket != "":
		return cfg.Socket, nil
	default:
		path, err = cfg.socketIn(filepath.Join(cfg.Home, "run"))
	}
	if errors.Is(err, address.ErrOther) {
		return "", palyra.Errorf(palyra.Unavailable, ReasonNoDaemon,
			"no daemon runs here: this home is a copy, and what its run/addr names is the original's daemon").
			WithRemedy("palyra up starts one of its own; palyra --home ORIGINAL speaks with the other").WithCause(err)
	}
	return path, err
}

// socketIn returns the door's socket in the run directory of a daemon.
func (cfg Config) socketIn(run string) (string, error) {
	dir, err := address.Find(run, run)
	if errors.Is(err, address.ErrOther) {
		return "", err
	}
	if forbidden(err) {
		return "", outOfReach(run, err)
	}
	if err != nil {
		return "", palyra.Errorf(palyra.Unavailable, ReasonNoDaemon, "cannot see where the daemon listens: %v", err)
	}
	if cfg.Door == OperatorDoor || cfg.Command {
		return filepath.Join(dir, "operator.sock"), nil
	}
	return filepath.Join(dir, "agent.sock"), nil
}

// forbidden reports whether the system does not let this process connect. Other sandboxes answer so for a socket
// that exists: by a filter of system calls (EPERM), or by the rights of a user or of a domain (EACCES).
func forbidden(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES)
}

func outOfReach(path string, err error) error {
	return palyra.Errorf(palyra.Unavailable, ReasonOutOfReach,
		"this process may not connect to %s: another sandbox, or another user's socket", path).
		WithRemedy("let that sandbox reach the socket (in Codex: sandbox_workspace_write.network_access = true), or call it from outside").
		WithCause(err)
}

func noDaemon(path string, err error) error {
	if forbidden(err) {
		return outOfReach(path, err)
	}
	return palyra.Errorf(palyra.Unavailable, ReasonNoDaemon, "no daemon listens on %s", path).
		WithRemedy("palyra up --detach").WithCause(err)
}

// failure turns any error of a request into a *palyra.Error; nil stays nil.
func failure(err error) error {
	if err == nil {
		return nil
	}
	e := wire.FromStatus(err)
	if own := (*palyra.Error)(nil); errors.As(err, &own) {
		return e // already explained where it happened
	}
	if cut(err) {
		return lostConnection(err)
	}
	for _, broken := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed} {
		if errors.Is(err, broken) {
			return lostConnection(err)
		}
	}
	return e
}

// cut reports whether the connection itself failed: the status is the transport's own and not a daemon's.
func cut(err error) bool {
	ce := (*connect.Error)(nil)
	return errors.As(err, &ce) && ce.Code() == connect.CodeUnavailable && !connect.IsWireError(ce)
}

func lostConnection(err error) error {
	return palyra.Errorf(palyra.Unavailable, ReasonConnectionLost, "the daemon went away before it answered").
		WithRemedy("see whether it runs: palyra status; then look up what became of the request").WithCause(err)
}
