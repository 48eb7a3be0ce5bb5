package connect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"palyra/internal/cli/invocation"
	"palyra/internal/mcp/install"
	"palyra/internal/show"
)

// trust is what Codex itself says about the hook: whether it runs it.
type trust struct {
	status string // Codex's word; "" where it was not asked
	config string // the file that was changed
	err    error  // why nobody can say
}

// holds reports whether Codex runs the hook.
func (t trust) holds() bool { return t.err == nil && (t.status == "trusted" || t.status == "managed") }

// result is the same for programs.
func (t trust) result() string {
	switch {
	case t.err != nil:
		return "unknown: " + t.err.Error()
	case t.status != "" && !t.holds():
		return "untrusted: " + t.status
	}
	return t.status
}

// say prints it.
func (t trust) say(inv *invocation.Invocation, w io.Writer) {
	switch {
	case t.holds():
		fmt.Fprintln(w, "  Codex says that it trusts the hook")
		if t.config != "" {
			fmt.Fprintf(w, "  the trust is in %s\n", show.Line(t.config))
		}
	case t.err != nil:
		inv.Say("  note: whether Codex trusts the hook is not known: %s", show.Line(t.err.Error()))
		fallthrough
	default:
		inv.Say("  note: `codex exec` skips a hook that is not trusted, without a word: start Codex in its window and trust it there,\n" +
			"  or install again when `codex` is on your path")
	}
}

// trustHook has Codex trust the hook in a file: it says by which digest it knows it, that digest is written beside its
// other settings, and it is asked again.
func trustHook(ctx context.Context, inv *invocation.Invocation, file string, is func(command string) bool) trust {
	ours, err := codexHooks(ctx, inv, file, is)
	if err != nil {
		return trust{err: err}
	}
	t := trust{status: ours.Status}
	if t.holds() {
		return t
	}
	config := install.CodexConfig(places(inv))
	done, err := install.TrustCodexHook(config, ours.Key, ours.Hash)
	if err != nil {
		return trust{err: err}
	}
	if ours, err = codexHooks(ctx, inv, file, is); err != nil {
		return trust{err: err}
	}
	if t.status = ours.Status; done.Changed {
		t.config = config
	}
	return t
}

// listed is a hook as Codex lists it.
type listed struct {
	Key     string `json:"key"`
	Hash    string `json:"currentHash"`
	Status  string `json:"trustStatus"`
	Source  string `json:"sourcePath"`
	Command string `json:"command"`
	Event   string `json:"eventName"`
	Enabled *bool  `json:"enabled"`
}

// codexPatience is how long Codex may take to list its hooks.
const codexPatience = 20 * time.Second

// codexHooks asks the Codex on this shell's path about our hook in a file: the one with a command line that is ours.
func codexHooks(ctx context.Context, inv *invocation.Invocation, file string, is func(command string) bool) (listed, error) {
	program := onPath(inv, "codex")
	if program == "" {
		return listed{}, errors.New("no `codex` is on your path")
	}
	ctx, done := context.WithTimeout(ctx, codexPatience)
	defer done()
	cmd := exec.CommandContext(ctx, program, "app-server")
	cmd.Env, cmd.WaitDelay = inv.Env, time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return listed{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return listed{}, err
	}
	if err := cmd.Start(); err != nil {
		return listed{}, err
	}
	defer func() {
		_ = in.Close()
		done()
		_ = cmd.Wait()
	}()
	all, err := listHooks(in, out, codexProject(file))
	if err != nil {
		return listed{}, fmt.Errorf("`codex app-server` did not list its hooks: %w", err)
	}
	return pick(all, file, is)
}

// pick finds our hook of a file among those that Codex lists. A file that came with a project may have others that only
// look like it, and one of these must not be trusted in its place.
func pick(all []listed, file string, is func(command string) bool) (listed, error) {
	real := file
	if at, err := filepath.EvalSymlinks(file); err == nil {
		real = at
	}
	all = slices.DeleteFunc(slices.Clone(all), func(h listed) bool {
		return h.Source != file && h.Source != real || !is(h.Command) || h.Event != "" && !strings.EqualFold(h.Event, "preToolUse")
	})
	switch {
	case len(all) == 0:
		return listed{}, errors.New("it is not in the list of Codex")
	case len(all) > 1:
		return listed{}, fmt.Errorf("%d hooks of this file have our command line in the list of Codex, and which "+
			"of them is ours is not certain: take the others out of it", len(all))
	case all[0].Enabled != nil && !*all[0].Enabled:
		return listed{}, errors.New("it is switched off in Codex's settings")
	}
	return all[0], nil
}

// codexProject is the directory whose hooks a file has.
func codexProject(file string) string { return filepath.Dir(filepath.Dir(file)) }

// maxListed is the most that Codex may say.
const maxListed = 4 << 20

// listHooks speaks Codex's protocol: one JSON object a line.
func listHooks(in io.Writer, out io.Reader, dir string) (all []listed, err error) {
	lines := bufio.NewScanner(io.LimitReader(out, maxListed))
	lines.Buffer(nil, maxListed)
	call := func(id int, method string, params any) (json.RawMessage, error) {
		if err := json.NewEncoder(in).Encode(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}); err != nil {
			return nil, err
		}
		for lines.Scan() {
			var m struct {
				ID     json.RawMessage `json:"id"`
				Result json.RawMessage `json:"result"`
				Error  json.RawMessage `json:"error"`
			}
			if json.Unmarshal(lines.Bytes(), &m) != nil || string(m.ID) != fmt.Sprint(id) || m.Result == nil && m.Error == nil {
				continue
			}
			if m.Error != nil {
				return nil, fmt.Errorf("%s: %.200s", method, m.Error)
			}
			return m.Result, nil
		}
		return nil, errors.Join(errors.New("it ended"), lines.Err())
	}
	if _, err := call(1, "initialize", map[string]any{"clientInfo": map[string]any{"name": "palyra", "version": "1"}}); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(in).Encode(map[string]any{"jsonrpc": "2.0", "method": "initialized"}); err != nil {
		return nil, err
	}
	raw, err := call(2, "hooks/list", map[string]any{"cwds": []string{dir}})
	if err != nil {
		return nil, err
	}
	var result struct {
		Data []struct {
			Hooks []listed `json:"hooks"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, err
	}
	for _, d := range result.Data {
		all = append(all, d.Hooks...)
	}
	return all, nil
}
