package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"palyra"
)

// The paths a call can take, each run again with every one of its records
// failing, once with everything lost and once with everything kept though
// nobody was told.
var paths = map[string]func(*world) (context.Context, palyra.Proposal){
	"allowed": func(*world) (context.Context, palyra.Proposal) { return context.Background(), palyra.Proposal{} },
	"refused by the catalogue": func(w *world) (context.Context, palyra.Proposal) {
		w.admit = func() (palyra.Tool, error) { return palyra.Tool{}, errStop }
		return context.Background(), palyra.Proposal{}
	},
	"denied by policy": func(w *world) (context.Context, palyra.Proposal) {
		w.verdict = always(palyra.Deny)
		return context.Background(), palyra.Proposal{}
	},
	"asked and allowed": func(w *world) (context.Context, palyra.Proposal) {
		w.verdict, w.desk = asking(palyra.Allow), answers(palyra.AnswerAllow)
		return context.Background(), palyra.Proposal{}
	},
	"asked and denied": func(w *world) (context.Context, palyra.Proposal) {
		w.verdict, w.desk = asking(palyra.Allow), answers(palyra.AnswerDeny)
		return context.Background(), palyra.Proposal{}
	},
	"asked, not enough": func(w *world) (context.Context, palyra.Proposal) {
		w.verdict, w.desk = asking(palyra.Deny), answers(palyra.AnswerAllow)
		return context.Background(), palyra.Proposal{}
	},
	"not awaited": func(w *world) (context.Context, palyra.Proposal) {
		w.verdict = asking(palyra.Allow)
		return context.Background(), palyra.Proposal{NoWait: true}
	},
	"covered by a lease": func(w *world) (context.Context, palyra.Proposal) {
		d := answered(palyra.AnswerAllow)
		d.Reused = true
		w.verdict, w.lease = asking(palyra.Allow), &d
		return context.Background(), palyra.Proposal{}
	},
	"cancelled while waiting": func(w *world) (context.Context, palyra.Proposal) {
		ctx, cancel := context.WithCancel(context.Background())
		w.verdict = asking(palyra.Allow)
		w.desk = func(ctx context.Context) (palyra.Decision, error) { cancel(); return palyra.Decision{}, ctx.Err() }
		return ctx, palyra.Proposal{}
	},
	"the runner will not start": func(w *world) (context.Context, palyra.Proposal) {
		w.execute = func(context.Context, palyra.Launch) palyra.Result {
			r := palyra.RefusalOf(palyra.LayerTier, palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "changed"))
			return palyra.Result{Refusal: &r}
		}
		return context.Background(), palyra.Proposal{}
	},
	"changes kept": func(w *world) (context.Context, palyra.Proposal) {
		w.staged()
		return context.Background(), palyra.Proposal{}
	},
	"changes asked about": func(w *world) (context.Context, palyra.Proposal) {
		w.staged()
		w.verdict, w.desk = onChanges(asking(palyra.Allow)), keepAnswers(palyra.AnswerAllow)
		return context.Background(), palyra.Proposal{}
	},
	"changes not wanted": func(w *world) (context.Context, palyra.Proposal) {
		w.staged()
		w.verdict, w.desk = onChanges(asking(palyra.Allow)), keepAnswers(palyra.AnswerDeny)
		return context.Background(), palyra.Proposal{}
	},
	"checked": func(*world) (context.Context, palyra.Proposal) {
		return context.Background(), palyra.Proposal{Check: true}
	},
	"checked and asked": func(w *world) (context.Context, palyra.Proposal) {
		w.verdict, w.desk = asking(palyra.Allow), checks(palyra.AnswerAllow)
		return context.Background(), palyra.Proposal{Check: true}
	},
	"checked and denied": func(w *world) (context.Context, palyra.Proposal) {
		w.verdict, w.desk = asking(palyra.Allow), checks(palyra.AnswerDeny)
		return context.Background(), palyra.Proposal{Check: true}
	},
	"checked, covered by a lease": func(w *world) (context.Context, palyra.Proposal) {
		d := answered(palyra.AnswerAllow)
		d.Reused = true
		w.verdict, w.lease = asking(palyra.Allow), &d
		return context.Background(), palyra.Proposal{Check: true}
	},
	"the tool panics": func(w *world) (context.Context, palyra.Proposal) {
		w.execute = func(context.Context, palyra.Launch) palyra.Result { panic("x") }
		return context.Background(), palyra.Proposal{}
	},
}

func TestEveryRecordFailing(t *testing.T) {
	for name, set := range paths {
		well := newWorld(t)
		ctx, p := set(well)
		if _, err := well.doWith(ctx, p); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if well.records == 0 {
			t.Fatalf("%s records nothing", name)
		}
		for n := 1; n <= well.records; n++ {
			for _, kept := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d kept %t", name, n, kept), func(t *testing.T) {
					w := newWorld(t)
					ctx, p := set(w)
					w.failAt, w.kept = n, kept
					out, err := w.doWith(ctx, p)
					checkFault(t, w, out, err)
				})
			}
		}
	}
}

// checkFault: the fakes have already checked that nothing ran without its line.
// What remains: after the failed record the call did not go on, no output came
// out, and the caller was told of the failure or got a refusal that is on
// record.
func checkFault(t *testing.T, w *world, out palyra.Outcome, err error) {
	t.Helper()
	broke := slices.IndexFunc(w.trace, func(s string) bool { return strings.HasPrefix(s, "lost ") || strings.HasPrefix(s, "kept, ") })
	if broke < 0 {
		t.Fatalf("no record failed: %q", w.trace)
	}
	if slices.Contains(w.trace[broke:], "run") {
		t.Errorf("it ran after a record failed: %q", w.trace)
	}
	switch {
	case err != nil:
		if !errors.Is(err, errDisk) || palyra.AsError(err).Reason != palyra.ReasonDiskFull {
			t.Errorf("the error does not say why: %v", err)
		}
	case out.Outcome != palyra.OutcomeRefused:
		t.Errorf("a record failed, and the agent got %s", out.Outcome)
	}
	if len(out.Output) > 0 || out.Stdout != "" || out.Attestation != nil {
		t.Errorf("output came out: %+v", out)
	}
	if n := len(w.granted); n > 1 || (w.runs > 0 && n != 1) || w.runs > 1 {
		t.Errorf("%d granted lines, %d runs", n, w.runs)
	}
	checkLines(t, w)
}

// checkLines: whatever failed, a call is proposed, judged for the first time,
// granted and ended at most once each in the journal.
func checkLines(t *testing.T, w *world) {
	t.Helper()
	count := map[string]int{}
	for _, e := range w.journal {
		kind := e.Kind()
		if j, ok := e.(palyra.CallJudged); ok && j.Again {
			kind += " again"
		}
		if s, ok := e.(palyra.CallSettling); ok {
			kind += fmt.Sprintf(" asked %t, again %t", s.Approval != "", s.Again)
		}
		count[kind]++
	}
	for kind, n := range count {
		if n > 1 {
			t.Errorf("%d lines of %s: %v", n, kind, kindsOf(w.journal))
		}
	}
	if ends := count["call.refused"] + count["call.finished"] + count["call.cancelled"] + count["call.checked"]; ends > 1 {
		t.Errorf("the call ended %d times: %v", ends, kindsOf(w.journal))
	}
}
