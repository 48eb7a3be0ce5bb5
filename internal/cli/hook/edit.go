package hook

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"palyra"
	"palyra/internal/hook"
)

// maxEdited is the largest file for which an edit is shown as a whole write, before and after; maxSteps is the
// most replacements made for it. A hook that ran out of memory or time would count as a yes.
const (
	maxEdited = 2 << 20
	maxSteps  = 200
)

// edit turns an edit into a write of the whole file, so that people see the diff. An edit that does
// not fit the present file, which the agent's tool may still take, is asked about unchanged.
func (h *hookCall) edit() (palyra.ToolName, map[string]any, error) {
	path, err := h.fields.text("file_path")
	if err != nil || path == "" {
		return "", nil, badHook("file_path is missing")
	}
	if !plainPath(path) {
		return "", nil, nil
	}
	content, ok := readPlain(h.place(path))
	if !ok || h.masked.hide(h.root, h.place(path), content) {
		return "", nil, nil
	}
	steps, ok := h.steps()
	if !ok {
		return "", nil, nil
	}
	for _, s := range steps {
		if content, ok = s.apply(content); !ok {
			return "", nil, nil
		}
	}
	return palyra.ToolFileWrite, map[string]any{"path": h.place(path), "content": content, "mode": "overwrite"}, nil
}

// patch turns a patch of one file, as Codex writes it, into a write of the whole file.
func (h *hookCall) patch() (palyra.ToolName, map[string]any, error) {
	got, err := h.fields.texts("command")
	if err != nil {
		return "", nil, err
	}
	path, content, ok := hook.Patched(got["command"], func(path string) (string, bool) { return readPlain(h.place(path)) })
	if !ok || !plainPath(path) || h.masked.hide(h.root, h.place(path), content) {
		return "", nil, nil
	}
	// No mode: a patch that adds a file makes a new one, or replaces an existing one.
	return palyra.ToolFileWrite, map[string]any{"path": h.place(path), "content": content, "make_dirs": true}, nil
}

// editStep replaces a text by another: where it occurs once, or everywhere.
type editStep struct {
	old, new string
	all      bool
}

func (s editStep) apply(content string) (string, bool) {
	n := strings.Count(content, s.old)
	switch {
	case s.old == "" || n == 0 || n > 1 && !s.all, len(content)+n*(len(s.new)-len(s.old)) > maxEdited:
		return "", false
	}
	return strings.ReplaceAll(content, s.old, s.new), true
}

// steps returns the replacements of an Edit, or of a MultiEdit.
func (h *hookCall) steps() ([]editStep, bool) {
	list := []fields{h.fields}
	if raw, ok := h.fields["edits"]; h.like == agentMultiEdit && (!ok || json.Unmarshal(raw, &list) != nil) {
		return nil, false
	}
	if len(list) > maxSteps {
		return nil, false
	}
	out := make([]editStep, 0, len(list))
	for _, f := range list {
		old, err := f.text("old_string")
		if err != nil {
			return nil, false
		}
		s := editStep{old: old}
		if s.new, err = f.text("new_string"); err != nil {
			return nil, false
		}
		if raw, ok := f["replace_all"]; ok && json.Unmarshal(raw, &s.all) != nil {
			return nil, false
		}
		out = append(out, s)
	}
	return out, len(out) > 0
}

// readPlain reads a text file of bounded size. Nothing else is opened: a pipe would keep the agent waiting.
func readPlain(path string) (string, bool) {
	if fi, err := os.Stat(path); err != nil || !fi.Mode().IsRegular() || fi.Size() > maxEdited {
		return "", false
	}
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxEdited+1))
	if err != nil || len(raw) > maxEdited || !utf8.Valid(raw) {
		return "", false
	}
	return string(raw), true
}
