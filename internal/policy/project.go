package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"palyra"
	"palyra/internal/subpath"
)

// ProjectDir is where a workspace keeps policies of its own.
const ProjectDir = ".palyra/policy"

// Limits of a project's policies: they are read for every call.
const (
	maxProjectFiles = 64
	maxProject      = 256 << 10
)

// projectPrefix stands before the ids of a project's policies, so that none can be taken for one of the bundle.
const projectPrefix = "project/"

// LoadProject reads the policies of a workspace: the *.cedar files at the root of fsys, which may only
// forbid. Anybody who works in the workspace can write them, so they can take away and never give. A
// directory that does not exist has no policies: nil. On any problem the error says where, and calls in the
// workspace are to be refused. Last is the result of the load before, or nil: it is returned again where
// nothing changed, which is most of the time.
func LoadProject(fsys fs.FS, last *Bundle) (*Bundle, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "%s cannot be read", ProjectDir).WithCause(err)
	}
	files, total := map[string]string{}, 0
	for _, e := range entries {
		name := e.Name()
		if text := stray(name); text != "" && !e.IsDir() && name[0] != '.' {
			return nil, bundleError(Problem{File: palyra.Clip(strings.Map(onlyPrintable, name), maxFileName), Line: 1, Column: 1, Text: text})
		}
		if e.IsDir() || !wanted(".", name) || name == entitiesFile || name == schemaFile {
			continue
		}
		text, err := readFile(fsys, name)
		if err != nil {
			return nil, err
		}
		files[name] = text
		if total += len(text); len(files) > maxProjectFiles || total > maxProject || !belongs(name) {
			return nil, bundleError(Problem{
				File: palyra.Clip(name, maxFileName), Line: 1, Column: 1,
				Text: fmt.Sprintf("the workspace's policies are more than %d files or %d bytes", maxProjectFiles, maxProject),
			})
		}
	}
	if len(files) == 0 {
		return nil, nil
	}
	files[schemaFile] = SchemaText()
	if digest, err := Sum(files); err == nil && last != nil && last.digest == digest {
		return last, nil
	}
	b, err := Compile(files)
	if err != nil {
		return nil, err
	}
	return b.asProject()
}

// asProject checks that every policy forbids, and gives them names of their own.
func (b *Bundle) asProject() (*Bundle, error) {
	var problems []Problem
	for _, r := range b.rules {
		if r.policy.Effect() != cedar.Forbid {
			problems = append(problems, Problem{
				File: r.hit.File, Line: r.hit.Line, Column: r.hit.Column,
				Text: fmt.Sprintf("%s permits: the policies of a workspace may only forbid", r.id),
			})
		}
		r.id = projectPrefix + r.id
		r.hit.ID, r.hit.File = string(r.id), ProjectDir+"/"+r.hit.File
	}
	if len(problems) > 0 {
		return nil, bundleError(problems...)
	}
	b.implied, b.byID = nil, map[cedar.PolicyID]*rule{}
	for _, r := range b.rules {
		b.byID[r.id] = r
	}
	return b, nil
}

// JoinProjects is the policies of a workspace and of the directories around it as one: the workspace's own first,
// then those one level up and so on; nil where a level has none. All of them forbid.
func JoinProjects(levels []*Bundle) *Bundle {
	var both *Bundle
	var digests []string
	for up, b := range levels {
		digests = append(digests, "")
		if b == nil {
			continue
		}
		digests[up] = string(b.digest)
		if up == 0 {
			both = b
			continue
		}
		both = both.withOuter(b, strings.Repeat("../", up))
		both.digest = palyra.SumBytes([]byte(strings.Join(digests, "\n")))
	}
	return both
}

// withOuter is a project's policies with those of a directory around it, under names that say how far up it
// is. Neither bundle is changed.
func (b *Bundle) withOuter(outer *Bundle, way string) *Bundle {
	both := *outer
	both.rules, both.files, both.byID = nil, nil, map[cedar.PolicyID]*rule{}
	if b != nil {
		both.rules = slices.Clone(b.rules)
	}
	for _, r := range outer.rules {
		one := *r
		one.id = cedar.PolicyID(projectPrefix + way + strings.TrimPrefix(string(r.id), projectPrefix))
		one.hit.ID, one.hit.File = string(one.id), way+r.hit.File
		both.rules = append(both.rules, &one)
	}
	for _, r := range both.rules {
		both.byID[r.id] = r
	}
	both.index = both.newIndex()
	return &both
}

// With is a project's policies with those of a directory below it, under names that say which. B may be nil.
// Neither bundle is changed.
func (b *Bundle) With(inner *Bundle, dir string) *Bundle {
	digests := []string{"", dir, string(inner.digest)}
	if b != nil {
		digests[0] = string(b.digest)
	}
	both := b.withOuter(inner, strings.Map(onlyPrintable, dir)+"/")
	both.digest = palyra.SumBytes([]byte(strings.Join(digests, "\n")))
	return both
}

// PlacesOf are the directories below its workspace that a plan says it works in:
// where it stands, and the files it names, each of which may be a directory itself.
func PlacesOf(p palyra.Plan) []string {
	top := p.Workspace.Path
	var out []string
	for _, place := range slices.Concat([]string{p.Cwd}, p.Reads, p.Writes) {
		if !path.IsAbs(place) {
			place = path.Join(top, palyra.PathText(place).Asked())
		}
		if place = path.Clean(place); subpath.Below(top, place) {
			out = append(out, place)
		}
	}
	return distinct(out)
}

// join is the bundle with a project's policies beside its own. Neither bundle is changed.
func (b *Bundle) join(project *Bundle) *Bundle {
	both := *b
	both.project = project.digest
	both.rules = slices.Concat(b.rules, project.rules)
	both.byID = maps.Clone(b.byID)
	maps.Copy(both.byID, project.byID)
	both.index = both.newIndex()
	return &both
}

// withProject is the state that judges a plan: with the policies of its workspace, where it has any.
func (s *state) withProject(p palyra.Plan) (*state, error) {
	if s.project == nil || p.Workspace.Path == "" {
		return s, nil
	}
	own, err := s.project(p.Workspace.Path, PlacesOf(p)...)
	if err != nil {
		return s, &brokenProject{err}
	}
	if own == nil {
		return s, nil
	}
	if slices.ContainsFunc(own.rules, func(r *rule) bool { return r.policy.Effect() != cedar.Forbid }) {
		return s, &brokenProject{errors.New("they permit, which they may not")}
	}
	with := *s
	if with.bundle = s.joined.Load(); with.bundle == nil || with.bundle.project != own.digest {
		with.bundle = s.bundle.join(own)
		s.joined.Store(with.bundle)
	}
	return &with, nil
}

// brokenProject is why calls in a workspace cannot be judged.
type brokenProject struct{ cause error }

// Error implements error, on one line.
func (b *brokenProject) Error() string {
	text := b.cause.Error()
	if e := (*palyra.Error)(nil); errors.As(b.cause, &e) {
		text = e.Text
	}
	return brokenPrefix + ": " + palyra.Clip(strings.ReplaceAll(text, "\n", "; "), 400)
}

// Project reports whether policies of a workspace took part in a verdict: by the ids of the policies that
// decided, or because they were broken, which is among the faults. Such a verdict cannot be reached again,
// since a workspace's policies are not kept.
func Project(decided, faults []string) bool {
	return slices.ContainsFunc(decided, func(id string) bool { return strings.HasPrefix(id, projectPrefix) }) ||
		slices.ContainsFunc(faults, func(text string) bool { return strings.HasPrefix(text, brokenPrefix) })
}

// brokenPrefix is how the error of a broken project begins.
const brokenPrefix = "the policies of the workspace (" + ProjectDir + ") are broken"
