// Package notify tells a person who does something else that a question waits: by a command of theirs, or on their desktop.
//
// Words: a notice is one thing that is told. Questions that come while a notice is on its way are told together in the
// next one.
//
// Promises. A notice says that something waits, what in one line, and how risky it is; it has nothing to decide with. What an
// agent wrote reaches a command in variables and on its standard input, never in words of its own, and is shown with marks in
// the place of what is not shown. One notice is on its way at a time, for ten seconds at most. One that fails is said once,
// and the questions wait as they did.
//
// It does not know whether anybody saw a notice.
package notify

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"palyra"
	"palyra/internal/show"
)

// Notice is what is told at once.
type Notice struct {
	Text  string              // one line
	Count int                 // how many questions it is about
	Asker palyra.Principal    // of the question, where it is one
	Risk  palyra.RiskLevel    // the highest of them
	All   []palyra.ApprovalID // oldest first, a hundred at most
}

// Way is a way to tell.
type Way interface {
	// Tell tells. It ends with the context.
	Tell(ctx context.Context, n Notice) error
}

const (
	patience = 10 * time.Second // for one notice
	maxText  = 240              // runes of what is asked
	maxNamed = 100              // questions that one notice names
)

// Notifier tells of questions.
type Notifier struct {
	ways   []Way
	errors io.Writer

	mu      sync.Mutex
	waiting []palyra.Approval          // to be told
	known   map[palyra.ApprovalID]bool // pending ones that were heard of
	more    chan struct{}
}

// New returns a Notifier that says on errors what it could not tell.
func New(errors io.Writer, ways ...Way) *Notifier {
	return &Notifier{ways: ways, errors: errors, known: map[palyra.ApprovalID]bool{}, more: make(chan struct{}, 1)}
}

// Hear hears of an approval as it now stands. It never waits.
func (n *Notifier) Hear(p palyra.Approval) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !p.Pending() {
		delete(n.known, p.ID)
		n.waiting = slices.DeleteFunc(n.waiting, func(w palyra.Approval) bool { return w.ID == p.ID })
		return
	}
	if n.known[p.ID] {
		return
	}
	n.known[p.ID] = true
	n.waiting = append(n.waiting, p)
	select {
	case n.more <- struct{}{}:
	default:
	}
}

// Run tells, until the context ends.
func (n *Notifier) Run(ctx context.Context) {
	failed := make([]bool, len(n.ways))
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.more:
		}
		notice, ok := n.take()
		if !ok {
			continue
		}
		for i, w := range n.ways {
			if err := tell(ctx, w, notice); err != nil && ctx.Err() == nil && !failed[i] {
				failed[i] = true
				fmt.Fprintf(n.errors, "palyra: a notice could not be given: %s\n", show.Line(palyra.Clip(err.Error(), 1024)))
			}
		}
	}
}

func tell(ctx context.Context, w Way, notice Notice) error {
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	return w.Tell(ctx, notice)
}

// take takes what waits to be told; false: all of it was answered meanwhile.
func (n *Notifier) take() (Notice, bool) {
	n.mu.Lock()
	asked := n.waiting
	n.waiting = nil
	n.mu.Unlock()
	if len(asked) == 0 {
		return Notice{}, false
	}
	return noticeOf(asked), true
}

func noticeOf(asked []palyra.Approval) Notice {
	out := Notice{Count: len(asked)}
	for _, p := range asked {
		if p.Prompt.Risk.Level.Rank() > out.Risk.Rank() {
			out.Risk = p.Prompt.Risk.Level
		}
		if len(out.All) < maxNamed {
			out.All = append(out.All, p.ID)
		}
	}
	if len(asked) > 1 {
		out.Text = fmt.Sprintf("%d questions wait for an answer, the riskiest is %s", len(asked), out.Risk)
		return out
	}
	p := asked[0]
	out.Asker = p.Principal
	summary := show.Line(strings.ToValidUTF8(p.Prompt.Summary, "\uFFFD"))
	out.Text = fmt.Sprintf("%s asks (%s): %s", show.Line(string(p.Principal)), out.Risk, short(summary))
	return out
}

func short(s string) string {
	if r := []rune(s); len(r) > maxText {
		return string(r[:maxText-1]) + "…"
	}
	return s
}

// variables are a notice in a command's environment.
func (n Notice) variables() []string {
	id := ""
	if n.Count == 1 {
		id = string(n.All[0])
	}
	return []string{
		"PALYRA_NOTICE=" + n.Text, "PALYRA_NOTICE_RISK=" + string(n.Risk), "PALYRA_NOTICE_COUNT=" + strconv.Itoa(n.Count),
		"PALYRA_NOTICE_APPROVAL=" + id, "PALYRA_NOTICE_ASKER=" + show.Line(string(n.Asker)),
	}
}
