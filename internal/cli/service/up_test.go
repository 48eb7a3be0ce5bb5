//go:build linux

package service

import (
	"testing"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
)

func TestCheckSettings(t *testing.T) {
	for _, c := range []struct {
		set  []string
		code int
	}{
		{nil, exit.OK},
		{[]string{"approvals.wait_ms=5"}, exit.OK},
		{[]string{"tools.allowed=palyra.echo,palyra.fs.*"}, exit.OK},
		{[]string{"approvals.wait_ms"}, exit.Usage},
		{[]string{"approvals.wait_ms="}, exit.Failure},
		{[]string{"approvals.wait=5"}, exit.Failure},
		{[]string{"approvals.wait_ms=5", "log.level=loud"}, exit.Failure},
	} {
		u := daemonStart{inv: &invocation.Invocation{Home: t.TempDir(), Env: []string{}}, settings: c.set}
		if got := exit.Of(u.checkSettings()); got != c.code {
			t.Errorf("%q: exit %d, want %d", c.set, got, c.code)
		}
	}
}

func TestLookAt(t *testing.T) {
	if got := (&daemonStart{}).lookAt(); got != "see the messages above" {
		t.Error(got)
	}
	if got := (&daemonStart{log: "/l"}).lookAt(); got != "see /l" {
		t.Error(got)
	}
}
