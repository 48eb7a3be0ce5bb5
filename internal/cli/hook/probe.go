package hook

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"palyra/internal/cli/screen"
	"palyra/internal/hook"
)

// probed answers for 'palyra hook doctor', which runs the real agent with the hook in a directory of its own: nothing is
// judged, what was asked is kept there, and the mark in the call says what happens. Settings that a person installed
// never have this: 'palyra hook install' does not write it, and does not take an entry with it for its own.
func probed(o hookOptions, raw []byte) (any, error) {
	asked, err := o.agent.Read(raw)
	if err != nil {
		return nil, badHook("%v", err)
	}
	input, err := json.Marshal(asked.Input)
	if err != nil {
		return nil, err
	}
	does, mark, _ := hook.ReadProbe(string(input))
	if err := keepProbe(o.probe, asked, does, mark); err != nil {
		return nil, err
	}
	switch does {
	case hook.ProbeDeny:
		return o.agent.Words(hook.Answer{Decision: hook.Deny, Reason: "palyra: " + mark}), nil
	case hook.ProbeExit:
		return nil, errors.New("a probe that fails")
	case hook.ProbeCrash:
		return nil, killShell()
	case hook.ProbeRewrite:
		if like, _, ok := o.agent.Like(asked.Tool, asked.Input); ok && like == hook.LikeShell {
			line, err := screen.EncodePlain(screen.ShellLine([]string{"touch", mark + hook.ProbeDone}))
			if err != nil {
				return nil, err
			}
			other := maps.Clone(asked.Input)
			other[o.agent.Field(asked.Tool, "command")] = json.RawMessage(line)
			return o.agent.Words(hook.Answer{Decision: hook.Allow, Reason: "palyra: " + mark, Input: other}), nil
		}
	}
	return o.agent.Words(hook.Answer{Decision: hook.Allow, Reason: "palyra: " + mark}), nil
}

// keepProbe writes down that the agent asked.
func keepProbe(dir string, asked hook.Asked, does, mark string) error {
	line, err := json.Marshal(map[string]any{"tool": asked.Tool, "input": asked.Input, "does": does, "mark": mark})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, hook.ProbeAsked), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// killShell kills the shell that started the hook, and the hook: what a machine that runs out of memory does.
func killShell() error {
	parent := os.Getppid()
	name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(parent), "comm"))
	if err != nil || !slices.Contains([]string{"sh", "bash", "dash", "zsh", "busybox", "ash"}, strings.TrimSpace(string(name))) {
		return errors.New("a probe that fails: no shell started the hook") // never anything else
	}
	if p, err := os.FindProcess(parent); err == nil {
		_ = p.Signal(syscall.SIGKILL)
	}
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Signal(syscall.SIGKILL)
	}
	select {} // until the signal is there
}
