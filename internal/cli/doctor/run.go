package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra/internal/cli/child"
	"palyra/internal/hook"
	"palyra/internal/standin"
)

// step is one call that the model makes.
type step struct {
	probe probe
	does  string
	mark  string
}

// play is the model of one run: it makes the calls one after the other, and keeps what came of each.
type play struct {
	a     arena
	steps []step
	sub   probe

	mu      sync.Mutex
	made    int            // calls that were made
	given   map[int]string // what the model was given, by step
	offered []string       // names of tools
}

// reply is what the model says next.
func (p *play) reply(r standin.Request) standin.Reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, mark, ok := hook.ReadProbe(r.Path); ok { // a page is fetched
		_ = os.WriteFile(filepath.Join(p.a.work, mark), nil, 0o600)
		return standin.Reply{Text: []string{"fetched"}}
	}
	tools := r.Tools()
	if len(tools) < 2 { // what is asked by the way, for a title
		return standin.Reply{Text: []string{"a title"}}
	}
	results := r.Results()
	if !strings.Contains(r.Raw, mainPrompt) {
		return p.subagent(r, len(results))
	}
	if len(p.offered) == 0 {
		p.offered = tools
		_ = os.WriteFile(filepath.Join(p.a.root, "asked.json"), []byte(r.Raw), 0o600) // for whoever keeps the directory
	}
	for i, one := range results {
		p.given[i] = strings.Join(one.Texts, "\n")
	}
	if n := len(results); n < len(p.steps) {
		p.made = max(p.made, n+1)
		s := p.steps[n]
		return standin.Reply{ID: fmt.Sprint(n), Calls: []standin.ToolCall{s.probe.call(p.a, s.mark)}}
	}
	return standin.Reply{Text: []string{"done"}}
}

// subagent is what a subagent's model says: it runs the command whose mark stands in its prompt.
func (p *play) subagent(r standin.Request, results int) standin.Reply {
	_, after, _ := strings.Cut(r.Raw, subPrompt)
	if _, mark, ok := hook.ReadProbe(after); ok && results == 0 && p.sub.call != nil {
		return standin.Reply{ID: "s", Calls: []standin.ToolCall{p.sub.call(p.a, mark)}}
	}
	return standin.Reply{Text: []string{"done"}}
}

// runPatience is how long one agent may take for all probes.
const runPatience = 4 * time.Minute

// maxSaid is how much of an agent's own output is kept.
const maxSaid = 64 << 10

// run has the agent make all calls.
func (w way) run(ctx context.Context, program string, path string, a arena, p *play) (said string, err error) {
	ctx, done := context.WithTimeout(ctx, runPatience)
	defer done()
	fill := strings.NewReplacer("{{home}}", a.home, "{{model}}", a.model)
	argv := make([]string, 0, len(w.argv))
	for _, word := range w.argv[1:] {
		argv = append(argv, fill.Replace(word))
	}
	cmd := exec.CommandContext(ctx, program, argv...)
	cmd.Dir, cmd.WaitDelay = a.work, 3*time.Second
	end := child.Group(cmd)
	cmd.Cancel = func() error { return end(true) }
	nowhere := "http://127.0.0.1:9" // whoever is not the model is not reached
	cmd.Env = []string{
		"PATH=" + path, "HOME=" + a.home, "PWD=" + a.work, "TMPDIR=" + filepath.Join(a.root, "tmp"), "TERM=dumb", "LANG=C.UTF-8", "NO_COLOR=1",
		"CODEX_HOME=" + filepath.Join(a.home, ".codex"), "XDG_CONFIG_HOME=" + filepath.Join(a.home, ".config"),
		"HTTP_PROXY=" + nowhere, "HTTPS_PROXY=" + nowhere, "http_proxy=" + nowhere, "https_proxy=" + nowhere,
		"NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost",
	}
	for _, v := range w.env {
		cmd.Env = append(cmd.Env, fill.Replace(v))
	}
	out := &tail{}
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	if cmd.Process != nil {
		_ = end(true) // what it left behind
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("it was not done after %s", runPatience)
	}
	return out.String(), err
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	t.kept = t.kept[max(0, len(t.kept)-maxSaid):]
	return len(p), nil
}

// String implements fmt.Stringer.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}

// steps are the calls of all probes: what is read, and then edited, comes first.
func (w way) steps() (all []step) {
	for _, p := range w.probes {
		for _, does := range p.does {
			s := step{p, does, hook.ProbeMark(does, nameOf(p))}
			if i := slices.IndexFunc(w.probes, func(r probe) bool { return r.kind == "read" }); p.kind == "edit" && i >= 0 {
				all = append(all, step{w.probes[i], "", edited(s.mark)})
			}
			all = append(all, s)
		}
	}
	return all
}

// nameOf is the name of a probe in its marks.
func nameOf(p probe) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(p.name))
}

// asked reads what the hook was asked: the marks, by what they had it do.
func asked(dir string) (map[string]bool, error) {
	raw, err := os.ReadFile(filepath.Join(dir, hook.ProbeAsked))
	if errors.Is(err, os.ErrNotExist) {
		return map[string]bool{}, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		var one struct{ Mark string }
		if json.Unmarshal([]byte(line), &one) == nil && one.Mark != "" {
			all[one.Mark] = true
		}
	}
	return all, nil
}
