package execute

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
)

// recorded has one call on record, or none.
type recorded struct {
	caller
	call *palyra.Call
}

func (r recorded) GetCall(context.Context, palyra.CallID) (palyra.Call, error) {
	if r.call == nil {
		return palyra.Call{}, errors.New("gone")
	}
	return *r.call, nil
}

func TestRuled(t *testing.T) {
	refused := palyra.Outcome{Outcome: palyra.OutcomeRefused, Layer: palyra.LayerPolicy, CallID: "C1", Policies: []string{"a", "b\x1b[2J"}}
	call := &palyra.Call{Verdict: palyra.Verdict{Policies: []palyra.PolicyHit{
		{ID: "a", Effect: "forbid", File: "x.cedar", Line: 3},
		{ID: "b\x1b[2J"},
	}}}
	many, other, ran, nameless := refused, refused, refused, refused
	many.Policies = []string{"1", "2", "3", "4", "5", "6", "7"}
	other.Layer = palyra.LayerPlan
	ran.Outcome = palyra.OutcomeFinished
	nameless.Policies = nil
	const more = "  more: palyra policy why C1\n"
	for _, c := range []struct {
		o    palyra.Outcome
		call *palyra.Call
		json bool
		want string
	}{
		{refused, call, false, "  rule: a (x.cedar:3, forbid)\n  rule: b\\x1b[2J\n" + more},
		{refused, nil, false, "  rule: a\n  rule: b\\x1b[2J\n" + more},
		{refused, call, true, ""},
		{many, call, false, "  rule: 1\n  rule: 2\n  rule: 3\n  rule: 4\n  rule: 5\n  and 2 more\n" + more},
		{nameless, call, false, more},
		{other, call, false, ""},
		{ran, call, false, ""},
	} {
		var out bytes.Buffer
		inv := &invocation.Invocation{Stderr: &out, Env: []string{"PALYRA_HOME=" + t.TempDir()}, JSON: c.json}
		ruled(t.Context(), inv, recorded{call: c.call}, c.o)
		if out.String() != c.want {
			t.Errorf("%q, want %q", out.String(), c.want)
		}
	}
}

func TestCounts(t *testing.T) {
	if got := strings.Join([]string{screen.Size(0), screen.Size(1), screen.Size(2), screen.Size(1024), screen.Count(1, "call")},
		", "); got != "0 bytes, 1 byte, 2 bytes, 1 KiB, 1 call" {
		t.Error(got)
	}
}
