package rpc

import "time"

// NewTight is New with limits that a test can reach.
func NewTight(c Config, wait time.Duration, requests int, bodies int64) (*Server, error) {
	l := usual
	l.header, l.body, l.write, l.stop, l.requests, l.bodies = wait, wait, wait, wait, requests, bodies
	return newServer(c, l)
}
