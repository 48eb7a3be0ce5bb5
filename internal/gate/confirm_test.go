package gate

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"palyra"
)

// atLaunch resolves as always the first time, and as now when the call is launched.
func atLaunch(now func() (palyra.Plan, error)) func() (palyra.Plan, error) {
	times := 0
	return func() (palyra.Plan, error) {
		if times++; times == 1 {
			return plan("a.txt"), nil
		}
		return now()
	}
}

// Whatever runs it, a call runs only if it resolves to the plan that was judged,
// after its granted line is durable.
func TestTheCallIsResolvedAgainBeforeItRuns(t *testing.T) {
	for name, c := range map[string]struct {
		now    func() (palyra.Plan, error)
		code   palyra.Code
		reason palyra.Reason
		text   string
	}{
		"an input changed": {
			func() (palyra.Plan, error) {
				p := plan("a.txt")
				p.Inputs = []palyra.Input{{Path: "b", Mode: 4}}
				return p, nil
			},
			palyra.Conflict, palyra.ReasonPlanChanged, "changed since the plan was judged: b",
		},
		"other arguments": {
			func() (palyra.Plan, error) { p := plan("a.txt"); p.Arguments = []byte(`{"x":2}`); return p, nil },
			palyra.Conflict, palyra.ReasonPlanChanged, "another plan than the one that was judged",
		},
		"gone": {
			func() (palyra.Plan, error) {
				return palyra.Plan{}, palyra.Errorf(palyra.NotFound, palyra.ReasonFileNotFound, "there is no such program")
			},
			palyra.Conflict, palyra.ReasonPlanChanged, "no longer holds: there is no such program",
		},
		"a tool withdrawn": {
			func() (palyra.Plan, error) {
				return palyra.Plan{}, palyra.Errorf(palyra.Conflict, palyra.ReasonQuarantined, "it has changed")
			},
			palyra.Conflict, palyra.ReasonQuarantined, "it has changed",
		},
		"no room": {func() (palyra.Plan, error) { return palyra.Plan{}, errDisk }, palyra.Unavailable, palyra.ReasonDiskFull, "the disk is full"},
		"a defect": {
			func() (palyra.Plan, error) { return palyra.Plan{}, errors.New("secret detail") },
			palyra.Internal, palyra.ReasonInternal, "internal error",
		},
		"no digest": {
			func() (palyra.Plan, error) { p := plan("a.txt"); p.Arguments = []byte("{"); return p, nil },
			palyra.Internal, palyra.ReasonInternal, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.resolve = atLaunch(c.now)
			var log bytes.Buffer
			w.log = slog.New(slog.NewTextHandler(&log, nil))
			out, err := w.do(t.Context())
			if err != nil || out.Outcome != palyra.OutcomeRefused || out.Layer != palyra.LayerTier || out.ReasonCode != c.reason ||
				!strings.Contains(out.Reason, c.text) {
				t.Fatalf("got %+v, %v", out, err)
			}
			if w.runs != 0 {
				t.Error("it ran")
			}
			if c.reason == palyra.ReasonPlanChanged && out.Remedy == "" {
				t.Error("no remedy")
			}
			if strings.Contains(out.Reason, "secret") || name == "a defect" && !strings.Contains(log.String(), "secret detail") {
				t.Errorf("%q is told to the agent, %q to the log", out.Reason, log.String())
			}
			row := w.rows[callID]
			if row.State != palyra.Refused || row.Grant == "" {
				t.Errorf("on record: %s, grant %q", row.State, row.Grant)
			}
		})
	}
}

// A call that is cancelled, or whose time is over, while it is resolved again does
// not run, and says which of the two it was. Resolving counts as time of the run.
func TestTheEndWhileItIsResolvedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			cancel bool
			reason palyra.Reason
		}{
			"cancelled": {true, palyra.ReasonCancelled},
			"timed out": {false, palyra.ReasonTimedOut},
		} {
			w := newWorld(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w.resolveIn = func(ctx context.Context) error {
				if len(w.journal) == 0 {
					return nil
				}
				if c.cancel {
					cancel()
				}
				<-ctx.Done()
				return ctx.Err()
			}
			began := time.Now()
			out, err := w.do(ctx)
			if err != nil || out.Outcome != palyra.OutcomeRefused || out.ReasonCode != c.reason || w.runs != 0 {
				t.Errorf("%s: got %+v, %v", name, out, err)
			}
			if took := time.Since(began); !c.cancel && took != time.Second {
				t.Errorf("it ended after %s, the plan says 1s", took)
			}
		}
	})
}
