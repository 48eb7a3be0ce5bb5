package doctor

import (
	"os"
	"path/filepath"

	"palyra/internal/hook"
)

// The verdicts about a tool. There is none that says that it is good: only what was seen.
const (
	Rewritten = "rewritten"   // a no holds, and a command runs as the hook says
	Judged    = "only judged" // a no holds; what is allowed runs as the agent's own, outside the sandbox
	Passes    = "passes"      // it ran although the hook said no, or without asking it
	Unseen    = "not seen"    // the agent did not use it
)

// What becomes of a call whose hook fails.
const (
	Blocked = "blocked"
	Passed  = "passes"
)

// row is what was seen of one tool.
type row struct {
	Tool      string `json:"tool"`
	Verdict   string `json:"verdict"`
	OnFailure string `json:"on_failure"` // the program fails
	OnCrash   string `json:"on_crash"`   // its shell is killed
	Note      string `json:"note,omitempty"`
}

// seen is what came of the steps of one probe.
type seen struct {
	made, asked, took bool
}

// judge makes the rows of a run.
func (p *play) judge(w way, askedFor map[string]bool) (rows []row) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pr := range w.probes {
		by := map[string]seen{}
		for i, s := range p.steps {
			if s.probe.name != pr.name || s.does == "" {
				continue
			}
			given, back := p.given[i]
			by[s.does] = seen{made: back, asked: askedFor[s.mark], took: back && pr.took(p.a, s.mark, given)}
		}
		rewritten := false
		if s, ok := by[hook.ProbeRewrite]; ok {
			_, err := os.Lstat(filepath.Join(p.a.work, hook.ProbeMark(hook.ProbeRewrite, nameOf(pr))+hook.ProbeDone))
			rewritten = err == nil && s.made && !s.took
		}
		rows = append(rows, rowOf(pr, by, rewritten))
	}
	return rows
}

// rowOf says what was seen.
func rowOf(p probe, by map[string]seen, rewritten bool) row {
	r := row{Tool: p.name, OnFailure: failing(by, hook.ProbeExit), OnCrash: failing(by, hook.ProbeCrash)}
	allow, deny := by[hook.ProbeAllow], by[hook.ProbeDeny]
	switch {
	case deny.took && !deny.asked:
		r.Verdict, r.Note = Passes, "the hook is not asked"
	case deny.took:
		r.Verdict, r.Note = Passes, "the hook's no does not hold"
	case !deny.made || !deny.asked:
		r.Verdict, r.Note = Unseen, "the agent did not ask about it, and did not use it"
	case !allow.took:
		r.Verdict, r.Note = Unseen, "it had no effect with a yes either, so its no says nothing"
	case rewritten:
		r.Verdict = Rewritten
	default:
		r.Verdict = Judged
	}
	if r.Verdict == Unseen {
		r.OnFailure, r.OnCrash = Unseen, Unseen
	}
	return r
}

// failing says what became of a call whose hook failed.
func failing(by map[string]seen, does string) string {
	s, tried := by[does]
	switch {
	case tried && s.took:
		return Passed
	case tried && s.made && s.asked:
		return Blocked
	}
	return Unseen
}
