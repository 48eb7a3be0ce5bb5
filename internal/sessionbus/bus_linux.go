package sessionbus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
)

// Address is the variable that leads to the session's bus. No other way is tried: none is started, and none is guessed.
const Address = "DBUS_SESSION_BUS_ADDRESS"

// AbsentError says that there is no bus to speak to.
type AbsentError struct {
	Text string
	Err  error // why it does not answer; nil: the variable is not set
}

// Error implements error.
func (e *AbsentError) Error() string { return e.Text }

// Unwrap is for errors.Is.
func (e *AbsentError) Unwrap() error { return e.Err }

// ForeignError says that the bus is another user's.
type ForeignError struct{ UID int }

// Error implements error.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("the session bus belongs to uid %d, and this program to uid %d", e.UID, os.Geteuid())
}

func clip(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// Dial connects to the session's bus, for as long as the context lasts; the bus has to greet in time. The socket is
// opened here, not by the library: so a peer that stops reading cannot hold the program, and a bus of somebody else is
// told nothing.
func Dial(ctx context.Context, greet time.Duration) (*dbus.Conn, error) {
	address := os.Getenv(Address)
	if address == "" {
		return nil, &AbsentError{Text: "there is no session bus: " + Address + " is not set"}
	}
	socket, err := dialSocket(ctx, address)
	if err != nil {
		return nil, err
	}
	_ = socket.SetDeadline(time.Now().Add(greet))
	bus, err := dbus.NewConn(socket, dbus.WithContext(ctx))
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	if err = bus.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))}); err == nil {
		err = bus.Hello()
	}
	if err != nil {
		return nil, errors.Join(err, bus.Close())
	}
	_ = socket.SetDeadline(time.Time{})
	context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) }) // a write that hangs would hold Close up
	return bus, nil
}

// dialSocket connects to the first address of a list that answers.
func dialSocket(ctx context.Context, list string) (*net.UnixConn, error) {
	err := errors.New("it names no socket of this machine")
	for one := range strings.SplitSeq(list, ";") {
		name, ok := socketName(one)
		if !ok {
			continue
		}
		var raw net.Conn
		if raw, err = new(net.Dialer).DialContext(ctx, "unix", name); err != nil {
			continue
		}
		socket := raw.(*net.UnixConn)
		if err := checkPeer(socket); err != nil {
			return nil, errors.Join(err, socket.Close())
		}
		return socket, nil
	}
	return nil, &AbsentError{Text: fmt.Sprintf("the session bus is not there (%s is %s)", Address, clip(list)), Err: err}
}

// socketName reads one address of a bus, such as unix:path=/run/user/1000/bus,guid=0f.
func socketName(address string) (string, bool) {
	pairs, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return "", false
	}
	for pair := range strings.SplitSeq(pairs, ",") {
		key, value, _ := strings.Cut(pair, "=")
		value, err := url.PathUnescape(value)
		switch {
		case err != nil || value == "":
		case key == "path":
			return value, true
		case key == "abstract":
			return "@" + value, true
		}
	}
	return "", false
}

// checkPeer refuses a bus that another user listens at: an address that outlived its session can be anybody's.
func checkPeer(socket *net.UnixConn) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var peer *syscall.Ucred
	if e := raw.Control(func(fd uintptr) {
		peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); e != nil {
		return e
	}
	if err != nil {
		return err
	}
	if int(peer.Uid) != os.Geteuid() {
		return &ForeignError{UID: int(peer.Uid)}
	}
	return nil
}
