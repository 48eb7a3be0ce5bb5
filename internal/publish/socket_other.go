//go:build !linux

package publish

import (
	"errors"
	"net"
	"os"
)

// socket is one in a run's network; only runs on Linux have a network of their own.
type socket struct{ six bool }

var errNone = errors.New("runs have no network of their own on this system")

func newSocket(*os.File) (socket, error) { return socket{}, errNone }

func (socket) connect(int) (*net.TCPConn, error) { return nil, errNone }
func (socket) disconnect()                       {}
func (socket) close()                            {}
