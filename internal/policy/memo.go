package policy

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"palyra"
)

// maxVerdicts bounds the verdicts that a Memo keeps.
const maxVerdicts = 16_384

// Memo judges many requests with what an engine had at one moment, whatever is
// swapped in later, and remembers how requests of one key were judged: an agent
// says the same again and again. Its methods may be called from many goroutines.
type Memo struct {
	state *state
	mu    sync.Mutex
	known map[string]palyra.Verdict
}

// Memo returns a Memo whose judgements end with ctx: a bundle may be large, and a judgement that was given up
// must not go on. The second result ends the watch on ctx.
func (e *Engine) Memo(ctx context.Context) (*Memo, func() bool) {
	var over atomic.Bool
	end := context.AfterFunc(ctx, func() { over.Store(true) })
	still := *e.live.Load()
	still.stop = over.Load
	return &Memo{state: &still}, end
}

// Bundle returns the bundle that it judges with.
func (m *Memo) Bundle() *Bundle { return m.state.bundle }

// Snapshot identifies the configuration that it judges with.
func (m *Memo) Snapshot() palyra.Digest { return m.state.digest }

// Analyse is what a plan's program would do, as far as policy believes it.
func (m *Memo) Analyse(p palyra.Plan) palyra.Command { return m.state.analyse(p) }

// Case is one request that is judged with one approval after the other. It keeps what was built for the first
// judgement for the next.
type Case struct {
	memo    *Memo
	key     string
	request palyra.Request
	built   *judgement
}

// Case takes in a request. Requests of one key are the same except for the call's id; an empty key says that
// this is not known.
func (m *Memo) Case(key string, r palyra.Request) *Case {
	return &Case{memo: m, key: key, request: r}
}

// Judge is Engine.Judge with an approval, or nil, and without the present time. An error means that
// the request cannot be put into policy's terms.
func (c *Case) Judge(a *palyra.ApprovalFacts) (palyra.Verdict, error) {
	m, key := c.memo, c.key
	if key != "" && a != nil {
		key = fmt.Sprintf("%s\x00%+v", key, *a)
	}
	if v, ok := m.recall(key); ok {
		return v, nil
	}
	if c.built == nil {
		built, _ := judgements.Get().(*judgement)
		if err := m.state.take(built, c.request); err != nil {
			return palyra.Verdict{}, err
		}
		c.built = built
	}
	c.built.request.Approval = a
	v := c.built.judge()
	m.keep(key, v)
	return v, nil
}

// Done gives back what the case was built of. It may be judged again all the same.
func (c *Case) Done() {
	if c.built != nil {
		c.built.end()
		c.built = nil
	}
}

func (m *Memo) recall(key string) (v palyra.Verdict, ok bool) {
	if key == "" {
		return v, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok = m.known[key]
	return v, ok
}

func (m *Memo) keep(key string, v palyra.Verdict) {
	if key == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= maxVerdicts {
		m.known = map[string]palyra.Verdict{}
	}
	m.known[key] = v
}
