// Package dailybytes bounds what the calls of one payer keep on a day: of calls beyond it only sizes and digests are kept.
package dailybytes

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"palyra"
)

// What the record of a call says that it lacks, because the calls of its payer had kept as much of the day as they
// may: the start of an entry of the outcome, and a note of the document.
const (
	NotKept          = "output_not_kept: "
	ArgumentsNotKept = "over tool_call.daily_bytes: of its arguments, size and digest are kept"
)

const (
	aDay     = 24 * time.Hour
	smallOut = 1 << 10 // that an outcome keeps of its output whatever was kept before
)

// Budget counts what the calls of each payer keep on a day. A restart finds what
// principals have kept in the calls themselves; a room does not outlive a daemon.
type Budget struct {
	Most int64 // bytes of texts; 0: as many as there are

	mu   sync.Mutex
	day  int64
	kept map[string]int64
}

// Over reports whether the payer of a call has kept as much as it may. seen is
// asked once a day, and after a restart.
func (b *Budget) Over(c *palyra.Call, seen func(from time.Time) (int64, error)) (bool, error) {
	if b.Most == 0 {
		return false, nil
	}
	payer, today := c.Proposal.Payer(), c.Proposed.UnixNano()/int64(aDay)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept == nil || b.day < today {
		b.day, b.kept = today, map[string]int64{}
	}
	if _, known := b.kept[payer]; !known {
		n, err := seen(time.Unix(0, today*int64(aDay)))
		if err != nil {
			return false, err
		}
		b.kept[payer] = n
	}
	return b.kept[payer] >= b.Most, nil
}

// Spend counts what a call keeps.
func (b *Budget) Spend(c *palyra.Call, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept != nil {
		b.kept[c.Proposal.Payer()] += int64(n)
	}
}

// largePlan is what the plan of an ended call may take beyond the budget.
const largePlan = 8 << 10

// Outlined is a call without what is large of it: its lines have the digest and size of its arguments, and the
// digest of its plan. While it runs the plan stays: what it may have done is told by it.
func Outlined(c palyra.Call) palyra.Call {
	c.Proposal.Arguments, c.Plan.Arguments = json.RawMessage("null"), json.RawMessage("null")
	if text, err := json.Marshal(c.Plan); !c.Finished.IsZero() && (err != nil || len(text) > largePlan) {
		p := c.Plan
		c.Plan = palyra.Plan{
			Tool: p.Tool, Arguments: p.Arguments, Capabilities: p.Capabilities, Source: p.Source, ReadOnly: p.ReadOnly, Workspace: p.Workspace,
			Executable: p.Executable, Tier: p.Tier, Profile: p.Profile, Limits: p.Limits,
		}
	}
	c.Detail = palyra.Detail{Summary: palyra.Clip(c.Detail.Summary, 512), Notes: []string{ArgumentsNotKept}}
	return c
}

// WithoutOutput is an outcome that says, of what it printed, how much it was and its
// digest; the same if that is little.
func WithoutOutput(o palyra.Outcome) palyra.Outcome {
	parts := []struct {
		name string
		text string
	}{{"stdout", o.Stdout + o.StdoutB64}, {"stderr", o.Stderr + o.StderrB64}, {"output", string(o.Output)}}
	size := 0
	for _, p := range parts {
		size += len(p.text)
	}
	if size <= smallOut {
		return o
	}
	o.Left = append([]string(nil), o.Left...)
	for _, p := range parts {
		if p.text != "" {
			o.Left = append(o.Left, fmt.Sprintf("%s%s, %d bytes, %s", NotKept, p.name, len(p.text), palyra.SumBytes([]byte(p.text))))
		}
	}
	o.Stdout, o.StdoutB64, o.Stderr, o.StderrB64, o.Output, o.Truncated = "", "", "", "", nil, true
	return o
}
