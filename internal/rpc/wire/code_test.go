package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"palyra"
)

func TestEveryCodeThereAndBack(t *testing.T) {
	seen := map[connect.Code]palyra.Code{}
	for _, c := range palyra.Codes() {
		s := StatusOf(c)
		if other, dup := seen[s]; dup {
			t.Errorf("%s and %s share a status", c, other)
		}
		seen[s] = c
		in := palyra.Errorf(c, palyra.ReasonStaleDigest, "text").WithRemedy("do")
		out := FromStatus(ToStatus(fmt.Errorf("part: op: %w", in)))
		if out.Code != c || out.Reason != in.Reason || out.Text != "text" || out.Remedy != "do" {
			t.Errorf("%s came back as %+v", c, out)
		}
	}
	if StatusOf("nonsense") != connect.CodeInternal {
		t.Error("an unknown code is not internal")
	}
}

func TestNothingInternalLeaks(t *testing.T) {
	err := ToStatus(fmt.Errorf("store: open /home/alice/.secret: %w", errors.New("disk")))
	if s := err.Error(); strings.Contains(s, "alice") || strings.Contains(s, "disk") {
		t.Errorf("leaked: %s", s)
	}
	if FromStatus(err).Reason != palyra.ReasonInternal {
		t.Error("no reason")
	}
	hidden := palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "no").WithCause(errors.New("alice"))
	if s := ToStatus(hidden).Error(); strings.Contains(s, "alice") {
		t.Errorf("leaked: %s", s)
	}
}

func TestBareStatuses(t *testing.T) {
	for status := connect.CodeCanceled; status <= connect.CodeUnauthenticated; status++ {
		e := FromStatus(connect.NewError(status, errors.New("x")))
		if e.Code == "" || e.Reason == "" {
			t.Errorf("%s: %+v", status, e)
		}
	}
	if e := FromStatus(connect.NewError(connect.CodeCanceled, errors.New("x"))); !errors.Is(e, context.Canceled) {
		t.Error("a cancel is not recognised")
	}
	if e := FromStatus(connect.NewError(connect.CodeDeadlineExceeded, errors.New("x"))); !errors.Is(e, context.DeadlineExceeded) {
		t.Error("a deadline is not recognised")
	}
	own := palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "x")
	if FromStatus(own) != own || FromStatus(errors.New("x")).Code != palyra.Internal {
		t.Error("own errors are changed")
	}
}
