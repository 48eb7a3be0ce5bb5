package rpc

import (
	"time"

	"palyra"
)

// NewTight is New with limits that a test can reach. A body of which little comes
// has a third of its time.
func NewTight(c Config, wait time.Duration, requests int, bodies int64) (*Server, error) {
	l := usual
	l.header, l.body, l.write, l.stop, l.requests, l.bodies = wait, 3*wait, wait, wait, requests, bodies
	return newServer(c, l)
}

// NewBrief is New where everything that is waited for has only so long.
func NewBrief(c Config, wait time.Duration, requests int) (*Server, error) {
	l := usual
	l.header, l.body, l.write, l.stop, l.recheck, l.idle, l.requests = wait, 3*wait, wait, 10*wait, wait, 4*wait, requests
	return newServer(c, l)
}

// Insecure is the rule on what is signed by a device of an address, at a plain door or another.
func Insecure(plain bool, address string, fields map[string]any) error {
	r := &request{peer: peer{plain: plain}, caller: Caller{Device: palyra.Device{ID: "dev-1", Address: address}}}
	r.access.Permission = decide
	return r.insecure(fields)
}

// Most a remote address may hold, for tests.
const (
	MaxPerAddress = maxPerAddress
	MaxShakingPer = maxShakingPer
)
