package hook

import (
	"path/filepath"

	"palyra/internal/subpath"
)

// reading lists the tools that only read: the field with their path, and whether it is one file.
var reading = map[string]struct {
	field string
	file  bool
}{
	agentRead: {"file_path", true}, agentNotebookRead: {"notebook_path", true}, agentList: {"path", false}, agentGrep: {"path", false},
}

// readsItsOwn reports whether a call only reads a file that the agent keeps for this session, and was told to read.
func (h *hookCall) readsItsOwn() bool {
	r, ok := reading[h.like]
	if !ok {
		return false
	}
	path, err := h.fields.text(r.field)
	return err == nil && plainPath(path) && h.own.Keeps(path)
}

// readsOutside reports whether a call only reads something outside the workspace, after links: then
// a person is asked about that path, under the tool's own name. The arguments leave out how much of
// it is read, so that one answer for the session covers the file. Paths of the daemon are not asked
// about: they are refused as any other path outside.
func (h *hookCall) readsOutside() (args map[string]any, ok bool) {
	r, ok := reading[h.like]
	if !ok {
		return nil, false
	}
	path, err := h.fields.text(r.field)
	if err != nil || path == "" || !plainPath(path) {
		return nil, false
	}
	at, whole := h.place(path), h.root
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real
	}
	if real, err := filepath.EvalSymlinks(whole); err == nil {
		whole = real
	}
	if subpath.Within(whole, at) {
		return nil, false
	}
	for _, place := range h.sealed {
		if real, err := filepath.EvalSymlinks(place); err == nil {
			place = real
		}
		if subpath.Within(place, at) || h.like == agentGrep && subpath.Within(at, place) {
			return nil, false
		}
	}
	return map[string]any{"tool": h.like, "input": map[string]any{r.field: at}}, true
}
