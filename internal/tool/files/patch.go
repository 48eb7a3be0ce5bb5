//go:build unix

package files

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"palyra"
	"palyra/internal/tool"
	"palyra/internal/tool/files/unified"
)

type patcher struct{ *shared }

const patchSchema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["patch"],
  "properties": {
    "patch": {"type": "string", "minLength": 1, "description": "A unified diff of one or more files, as 'diff -u' or 'git diff' write it, with paths relative to the workspace (the prefixes a/ and b/ are dropped). Git headers may create, delete, rename or copy files and set the execute permission. Context must match exactly."}
  }
}`

// Spec implements tool.Tool.
func (patcher) Spec() palyra.Tool {
	return writing(spec(palyra.ToolFilePatch, "Apply patch",
		"Applies a unified diff to files of the workspace: all of its changes or none. Text files only; links are not followed.",
		patchSchema), patchInput)
}

type patchArgs struct {
	Patch string `json:"patch"`
}

// Plan implements tool.Tool.
func (t patcher) Plan(ctx context.Context, env tool.Env, p *palyra.Plan) error {
	diffs, err := patchOf(*p)
	if err != nil {
		return err
	}
	return t.changing(ctx, env, p, patched(diffs), func(r *root) error {
		set, err := patchChanges(r, env, *p, diffs, !p.Workspace.Known)
		if err != nil {
			return err
		}
		bind(p, set.changes, set.sources)
		p.Guarded = r.guarded(set.changes)
		p.Detail.Notes = set.notes
		if set.misfit != nil {
			p.Detail.Notes = append(p.Detail.Notes, "it would fail: "+palyra.AsError(set.misfit).Text)
		}
		summary := "patch " + quoteUnlessPlain(set.changes[0].path)
		if n := len(set.changes); n > 1 {
			summary = fmt.Sprintf("patch %d files", n)
		}
		show(set.changes).detail(p, summary)
		if !p.Workspace.Known { // the number of changed lines would tell whether the patch fits
			p.Detail.Summary = summary
		}
		t.lasting(env, p, set.changes)
		return nil
	})
}

type patchedFile struct {
	Path   string        `json:"path"`
	Action string        `json:"action"`
	Bytes  int           `json:"bytes"`
	SHA256 palyra.Digest `json:"sha256"` // empty for a removed file
}

type patchResult struct {
	Files []patchedFile `json:"files"`
}

// Run implements tool.Tool.
func (t patcher) Run(ctx context.Context, env tool.Env, p palyra.Plan) (out json.RawMessage, err error) {
	diffs, err := patchOf(p)
	if err != nil {
		return nil, err
	}
	err = t.changing(ctx, env, &p, patched(diffs), func(r *root) error {
		set, err := patchChanges(r, env, p, diffs, false)
		if err != nil {
			return err
		}
		if err := bound(p, set.changes, set.sources); err != nil {
			return err
		}
		if err := t.apply(ctx, r, env, set.changes, p.Lasting && env.Approved); err != nil {
			return err
		}
		res := patchResult{}
		for _, c := range set.changes {
			f := patchedFile{Path: c.path, Action: c.action, Bytes: len(c.after)}
			if !c.remove {
				f.SHA256 = palyra.SumBytes(c.after)
			}
			res.Files = append(res.Files, f)
		}
		out, err = tool.Encode(res)
		return err
	})
	return out, err
}

// patchOf reads the patch of a call.
func patchOf(p palyra.Plan) ([]unified.File, error) {
	var a patchArgs
	if err := tool.Arguments(p, &a); err != nil {
		return nil, err
	}
	return unified.Parse(a.Patch)
}

// patched lists the files that a patch starts from, each once.
func patched(diffs []unified.File) []string {
	var names []string
	for _, d := range diffs {
		if d.Old != "" && !slices.Contains(names, d.Old) {
			names = append(names, d.Old)
		}
		if d.New != "" && !slices.Contains(names, d.New) {
			names = append(names, d.New)
		}
	}
	return names
}

// patchSet holds the changes of a patch.
type patchSet struct {
	changes []change
	sources []source // files that are copied
	looks   map[string]state
	notes   []string
	clean   func(string) (string, error)
	total   int64
	budget  int // lines that may still be compared

	// untold plans a patch that does not fit all the same, as planUnread does for an edit:
	// otherwise the content could be guessed line by line.
	untold bool
	misfit error
}

// patchChanges reads the files and applies the patch to them in memory.
func patchChanges(r *root, env tool.Env, p palyra.Plan, diffs []unified.File, untold bool) (*patchSet, error) {
	set := &patchSet{
		untold: untold, budget: unified.MaxCompare, looks: map[string]state{},
		clean: func(name string) (string, error) { return cleanTarget(name, p.Workspace.Path, env.Asked) },
	}
	for _, d := range diffs {
		if err := set.add(r, d); err != nil {
			return nil, err
		}
	}
	for _, c := range set.changes {
		if err := r.keepsValues(c); err != nil {
			return nil, err
		}
	}
	return set, arrange(set.changes)
}

func (s *patchSet) add(r *root, d unified.File) error {
	from, to, err := s.sides(r, d)
	if err != nil {
		return err
	}
	base := from
	if d.Action == "create" {
		base = to
	}
	after, spots, err := unified.Apply(quote(base.path), base.before.content, d.Hunks, &s.budget)
	if err == nil && d.Action == "delete" && len(after) > 0 {
		err = unified.Mismatch("it deletes %s but leaves %d bytes of it", quote(from.path), len(after))
	}
	if err != nil && s.untold && base.before.exists {
		s.misfit = cmp.Or(s.misfit, err)
		base.action, base.after, base.mode = "modify", base.before.content, base.before.mode
		s.changes = append(s.changes, base)
		return nil
	}
	if err != nil {
		return err
	}
	if s.total += int64(len(after) + len(base.before.content)); s.total > r.cfg.MaxFile {
		return tooLarge(base.path, r.cfg.MaxFile)
	}
	switch d.Action {
	case "delete":
		from.remove = true
		s.changes = append(s.changes, from)
		return nil
	case "rename":
		from.remove = true
		s.changes = append(s.changes, from)
		s.notes = append(s.notes, fmt.Sprintf("renames %s to %s", quoteUnlessPlain(from.path), quoteUnlessPlain(to.path)))
	case "copy":
		s.sources = append(s.sources, source{from.path, from.before})
		s.notes = append(s.notes, fmt.Sprintf("copies %s to %s", quoteUnlessPlain(from.path), quoteUnlessPlain(to.path)))
	}
	to.after, to.mode, to.spots = after, newMode(d, from, to), spots
	if d.Action == "rename" || d.Action == "copy" {
		to.origin = &source{from.path, from.before}
	}
	s.changes = append(s.changes, to)
	return nil
}

// look reads each file once, however many parts of the patch name it: the patched content must be
// the bound one, and every part starts from the files as they were before the patch.
func (s *patchSet) look(r *root, rel string) (state, error) {
	if st, ok := s.looks[rel]; ok {
		return st, nil
	}
	st, err := r.look(rel)
	if err == nil {
		err = st.editable(rel)
	}
	if err == nil {
		s.looks[rel] = st
	}
	return st, err
}

// sides reads the file a diff starts from and the one it results in, which are often the same, and
// checks that each exists, or does not, as the diff says.
func (s *patchSet) sides(r *root, d unified.File) (from, to change, err error) {
	from.action, to.action = d.Action, d.Action
	if d.Old != "" {
		if from.path, err = s.clean(d.Old); err == nil {
			from.before, err = s.look(r, from.path)
		}
		if err == nil && !from.before.exists {
			err = palyra.Errorf(palyra.NotFound, palyra.ReasonFileNotFound, "the patch changes %s, which does not exist", quote(from.path)).
				WithRemedy("check the path with palyra.fs.list; to make a file use /dev/null as its old name")
		}
		if err != nil {
			return from, to, err
		}
	}
	if d.New != "" {
		if to.path, err = s.clean(d.New); err == nil {
			to.before, err = s.look(r, to.path)
		}
		if err == nil && d.Action != "modify" && to.before.exists {
			err = unified.Mismatch("%s exists already", quote(to.path))
		}
	}
	return from, to, err
}

// newMode is the mode of the resulting file.
func newMode(d unified.File, from, to change) uint32 {
	mode := from.before.mode & 0o777
	if d.Old == "" {
		mode = to.before.newMode
	}
	if d.Exec != nil {
		mode = executable(mode, *d.Exec)
	}
	return mode
}
