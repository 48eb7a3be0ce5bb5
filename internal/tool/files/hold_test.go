//go:build unix

package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra"
	"palyra/internal/memory"
	"palyra/internal/tool/files/unified"
)

// However many calls come at once, what they hold stays within the budget, and each
// of them is planned or told to come again.
func TestPlanningHoldsNoMoreThanItsBudget(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.put("big.js", strings.Repeat("some line of a large file\n", (31<<20)/26)+"needle\n", 0o644)
	const calls = 12 // about three times what the share has room for
	var wg sync.WaitGroup
	errs := make([]error, calls)
	for i := range calls {
		wg.Go(func() {
			_, errs[i] = b.plan("edit", args{"path": "big.js", "old_string": "needle", "new_string": fmt.Sprintf("needle %d", i)})
		})
	}
	wg.Wait()
	passed := 0
	for _, err := range errs {
		switch e := palyra.AsError(err); {
		case err == nil:
			passed++
		case e.Reason != palyra.ReasonBusy || e.Code != palyra.Exhausted || e.Remedy == "":
			t.Errorf("%v", err)
		}
	}
	now, most := b.shared.cfg.Memory.Held()
	if now != 0 || most > holdShare || most < 62<<20 || passed == 0 {
		t.Errorf("%d bytes held at the end, %d at most, %d of %d planned", now, most, passed, calls)
	}
}

// A call that waits for its part of the memory can be cancelled, and gives up.
func TestPlanningWaitsAndGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, os.Geteuid())
		b.put("f", "x\n", 0o644)
		release, err := b.shared.cfg.Memory.Take(t.Context(), "", holdShare)
		b.ok(err)
		defer release()
		start := time.Now()
		if _, err := b.plan("edit", args{"path": "f", "old_string": "x", "new_string": "y"}); palyra.AsError(err).Reason != palyra.ReasonBusy ||
			time.Since(start) != holdPatience {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p := palyra.Plan{Workspace: palyra.WorkspaceRef{Path: b.dir, Owner: int64(os.Geteuid())}, Arguments: []byte(`{"path":"f","content":"y"}`)}
		if err := b.byName["write"].Plan(ctx, b.env(), &p); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// What no share could hold is refused at once.
func TestPlanningMoreThanAShare(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.shared.cfg.Memory = memory.NewBudget(1<<20, 1<<20, time.Hour)
	b.put("f", strings.Repeat("x", 1<<20), 0o644)
	if e := b.refused(palyra.ReasonFileTooLarge, "write", args{"path": "f", "content": "y"}); e.Remedy == "" {
		t.Error(e)
	}
}

// A file that grows after it was looked at is not read beyond what is held.
func TestAFileThatGrowsIsNotRead(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.put("f", "x", 0o644)
	p := palyra.Plan{Workspace: palyra.WorkspaceRef{Path: b.dir, Owner: int64(os.Geteuid())}}
	err := b.shared.changing(t.Context(), b.env(), &p, []string{"f"}, func(r *root) error {
		b.put("f", strings.Repeat("x", unified.Growth+10), 0o644)
		_, err := r.look("f")
		return err
	})
	if palyra.AsError(err).Reason != palyra.ReasonPlanChanged {
		t.Errorf("%v", err)
	}
}
