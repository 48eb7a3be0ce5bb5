package effects

import (
	"maps"
	"path"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/symlink"
	"palyra/internal/trusted"
)

// Before is what facts need to know of the workspace that changes are of and that is not in the changes: what was
// there before the run. It is a stranger's, so the functions must neither follow links nor leave it; each may be nil.
type Before struct {
	Path   string                                // absolute
	Exists func(name string) bool                // is there something
	Link   func(name string) (string, bool)      // what a symbolic link says
	Obeyed func(names []string) (all []string)   // those of the names that links or git's configuration lead to from where other programs look
	Links  func(each func(name, to string)) bool // every symbolic link there is; false: not all of them could be found
	Closed func(way string) bool                 // leads an absolute path to where no link may lead: there, runs leave what others would obey
	System func(way string) bool                 // is an absolute path a program of the system that the workspace's owner cannot change
	Git    func() Git                            // what the changes do to git's repositories
}

// Git is what changes do to git's repositories, beside what they do to files.
type Git struct {
	Trusted     []string // names that other programs obey, in the index or a new commit
	Unread      []string // repositories of which nobody can say whether such names came in
	More        int64    // beyond those, and changes in repositories that nobody looked at
	Uncommitted []string // files with edits that no commit has, and that go
	Rewound     []string // refs that lose commits
	Share       int64    // per cent of the files that git knows that are different; -1: not known
}

// most bounds each list of names in the facts.
const most = 64

// FactsOf says what policy is told of changes, which are all there are. Names that other programs trust and links that
// lead out are looked for in all of them; those beyond what is listed count as omitted, as do files that were not read.
func FactsOf(e palyra.Effects, all []palyra.Change, neverKept int64, w Before) palyra.EffectFacts {
	f := palyra.EffectFacts{
		Created: e.Created, Changed: e.Changed, Removed: e.Removed, Mode: e.Mode, Link: e.Link,
		NeverKept: neverKept, Share: -1, Omitted: e.Omitted,
	}
	v := newView(all, w)
	if !v.followOld() { // where they lead now, nobody knows
		f.Omitted++
	}
	for _, c := range all {
		if gone(c) {
			f.RemovedFiles++
		}
		if c.Now != nil && c.Now.Kind == palyra.PathFile && c.Kind != palyra.ChangeMode {
			f.Bytes += c.Now.Size
		}
		if unread(c.Was) || unread(c.Now) { // nobody knows what it does
			f.Omitted++
		}
		if runnable(c.Now) && !runnable(c.Was) {
			f.Executables++
		}
	}
	f.RunByTools, _ = first(v.runByTools())
	var more [4]int64
	git := Git{Share: -1}
	if w.Git != nil && len(all) > 0 {
		git = w.Git()
	}
	f.Share = git.Share
	f.Outward, more[0] = first(v.outward())
	f.Trusted, more[1] = first(slices.Concat(v.trusted(), git.Trusted, git.Unread))
	f.Uncommitted, more[2] = first(git.Uncommitted)
	f.Rewound, more[3] = refs(git.Rewound)
	f.Omitted += more[0] + more[1] + more[2] + more[3] + git.More
	return f
}

// refs are the first names of refs, as texts.
func refs(names []string) (out []string, more int64) {
	texts, more := first(names)
	for _, t := range texts {
		out = append(out, string(t))
	}
	return out, more
}

// gone reports whether what a path had is not there any more: it was removed, something else has taken its place, or
// nothing is in it.
func gone(c palyra.Change) bool {
	switch {
	case is(c.Was, palyra.PathFile):
		return !is(c.Now, palyra.PathFile) || c.Was.Size > 0 && c.Now.Size == 0
	case is(c.Was, palyra.PathLink):
		return c.Now == nil || c.Now.Kind == palyra.PathDirectory
	}
	return false
}

// unread reports whether nobody could say what a file has in it.
func unread(s *palyra.PathState) bool {
	return s != nil && s.Kind == palyra.PathFile && s.Digest == "" && s.Size > 0
}

func runnable(s *palyra.PathState) bool {
	return s != nil && s.Kind == palyra.PathFile && s.Mode&0o111 != 0
}

// first are the texts of the first names, and how many there are beyond them.
func first(names []string) (out []palyra.PathText, more int64) {
	slices.Sort(names)
	names = slices.Compact(names)
	for _, n := range names[:min(len(names), most)] {
		out = append(out, palyra.TextOfPath(n))
	}
	return out, int64(max(0, len(names)-most))
}

// view is a workspace as it would be with the changes.
type view struct {
	Before
	names  []string // of changes, in their order; bytes
	states map[string]palyra.Change
	led    map[string]string // links that did not change and that a changed one makes lead out, and where they lead
}

func newView(all []palyra.Change, w Before) *view {
	v := &view{Before: w, states: make(map[string]palyra.Change, len(all)), led: map[string]string{}}
	for _, c := range all {
		name := c.Path.Raw()
		v.names = append(v.names, name)
		v.states[name] = c
	}
	return v
}

// exists reports whether something is at a path.
func (v *view) exists(name string) bool {
	if c, changed := v.states[name]; changed {
		return c.Now != nil
	}
	return v.Exists != nil && v.Exists(name)
}

// link is what a symbolic link says.
func (v *view) link(name string) (string, bool) {
	if c, changed := v.states[name]; changed {
		if c.Now == nil || c.Now.Kind != palyra.PathLink {
			return "", false
		}
		return c.Now.Target.Raw(), true
	}
	if v.Link == nil {
		return "", false
	}
	return v.Link(name)
}

// repository reports whether git takes a directory for one: it has HEAD, and objects and refs or where they are.
func (v *view) repository(dir string) bool {
	has := func(name string) bool { return v.exists(path.Join(dir, name)) }
	return has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

// trusted are the changed names that other programs obey, wherever these find them.
func (v *view) trusted() (out []string) {
	place := trusted.Place{Repository: v.repository}
	for _, name := range v.names {
		c := v.states[name]
		whole := c.Was == nil || c.Now == nil || c.Was.Kind != c.Now.Kind
		link := is(c.Was, palyra.PathLink) || is(c.Now, palyra.PathLink)
		itself := whole || !is(c.Now, palyra.PathDirectory) // a file in the place of a directory leads to another one
		if place.Changed(name, itself, link) || whole && v.planted(name) || v.intoModules(name) || v.linkInGit(name) || v.intoClosed(name) {
			out = append(out, name)
		}
	}
	for name, way := range v.led {
		if v.Closed != nil && v.Closed(way) {
			out = append(out, name)
		}
	}
	if v.Obeyed != nil && len(v.names) > 0 {
		out = append(out, v.Obeyed(v.names)...)
	}
	return out
}

func is(s *palyra.PathState, kind palyra.PathKind) bool { return s != nil && s.Kind == kind }

// planted reports whether an entry made its directory a repository of its own, in which git would look for commands.
func (v *view) planted(name string) bool {
	if v.states[name].Now == nil || slices.Contains(strings.Split(name, "/"), ".git") {
		return false
	}
	switch trusted.Folded(path.Base(name)) {
	case "head", "objects", "refs", "commondir":
		return v.repository(path.Dir(name))
	}
	return false
}

// linkInGit reports whether an entry is a link in a repository. Git makes none there, and goes wherever one leads.
func (v *view) linkInGit(name string) bool {
	return is(v.states[name].Now, palyra.PathLink) && slices.Contains(strings.Split(name, "/"), ".git")
}

// intoClosed reports whether an entry is a link to where no link may lead.
func (v *view) intoClosed(name string) bool {
	to, is := v.link(name)
	if !is || v.Closed == nil || v.states[name].Now == nil {
		return false
	}
	return v.Closed(v.follow(path.Dir(name), to).way)
}

// intoModules reports whether an entry is a link that leads from outside into node_modules, where names are not looked
// at otherwise.
func (v *view) intoModules(name string) bool {
	to, is := v.link(name)
	return is && v.states[name].Now != nil && !modules(name) && modules(to)
}

func modules(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if trusted.Folded(part) == "node_modules" {
			return true
		}
	}
	return false
}

// outward are the links that lead out of the workspace and that changed, or lead there by way of one that did. A changed
// link that goes up again after it went down counts as well: whatever takes the place of what is on its way leads it out.
// A link to a program of the system does not count.
func (v *view) outward() (out []string) {
	for _, name := range v.names {
		to, is := v.link(name)
		if !is || v.ofSystem(to) {
			continue
		}
		if e := v.follow(path.Dir(name), to); v.strays(name, to) || e.out && !v.ofSystem(e.way) {
			out = append(out, name)
		}
	}
	return slices.AppendSeq(out, maps.Keys(v.led))
}

// ofSystem reports whether a path is a program of the system, named without detours.
func (v *view) ofSystem(way string) bool {
	way = strings.TrimRight(way, "/")
	return v.System != nil && path.IsAbs(way) && path.Clean(way) == way && v.System(way)
}

// followOld follows the links that did not change, where one did that may be on their way: it was made, replaced or
// removed. It reports whether all were found.
func (v *view) followOld() bool {
	if v.Links == nil || !slices.ContainsFunc(v.names, v.relinked) {
		return true
	}
	return v.Links(func(name, to string) {
		if _, changed := v.states[name]; changed || !v.strays(name, to) { // others lead out by way of these only
			return
		}
		if e := v.follow(path.Dir(name), to); e.out && e.relinked {
			v.led[name] = e.way
		}
	})
}

// relinked reports whether a path changed that was a link, or is one.
func (v *view) relinked(name string) bool {
	c := v.states[name]
	return is(c.Was, palyra.PathLink) || is(c.Now, palyra.PathLink)
}

// strays reports whether what a link says can lead out without another link that does.
func (v *view) strays(name, to string) bool {
	if in, below := v.below(to); below {
		return symlink.Strays(in, 0)
	}
	return symlink.Strays(to, strings.Count(name, "/"))
}

// below is the part of an absolute path in the workspace. It is not cleaned: a link before .. leads elsewhere.
func (v *view) below(to string) (string, bool) {
	in, below := strings.CutPrefix(to, v.Path)
	return strings.TrimPrefix(in, "/"), below && v.Path != "" && (in == "" || in[0] == '/')
}

// mostLinks bounds the links that are followed from one: more than the kernel follows.
const mostLinks = 40

// end is where a link leads.
type end struct {
	way      string // absolute; what is on it outside of the workspace is not followed
	out      bool   // of the workspace
	relinked bool   // by way of a path that changed and was a link, or is one
}

// follow follows what a link in a directory says, by way of other links too. What goes round in circles, or is
// longer than can be followed, leads out as far as anybody knows.
func (v *view) follow(dir, said string) (e end) {
	rest, at, to := "", dir, said
	for range mostLinks + 1 {
		if strings.HasPrefix(to, "/") {
			in, below := v.below(to)
			if !below {
				e.way, e.out = to+"/"+rest, true
				return e
			}
			at, to = ".", in
		}
		if rest = to + "/" + rest; len(rest) > 1<<16 {
			break
		}
		next, found := v.walk(&at, &rest, &e.relinked)
		if !found {
			e.way, e.out = v.Path+"/"+at+"/"+rest, at == ".."
			return e
		}
		to = next
	}
	e.way, e.out = v.Path+"/"+dir+"/"+said, true
	return e
}

// walk goes on from a directory until a link is met, which it returns, or the way ends; at is ".." where it left the
// workspace, and relinked is set where a path on the way changed and was a link, or is one.
func (v *view) walk(at, rest *string, relinked *bool) (link string, found bool) {
	for *rest != "" {
		part, more, _ := strings.Cut(*rest, "/")
		*rest = more
		switch part {
		case "", ".":
			continue
		case "..":
			if *at == "." {
				*at = ".."
				return "", false
			}
			*at = path.Dir(*at)
			continue
		}
		next := path.Join(*at, part)
		*relinked = *relinked || v.relinked(next)
		if to, is := v.link(next); is {
			return to, true
		}
		*at = next
	}
	return "", false
}

// runByTools are the changed files that builds and tests run. What is installed is not meant.
func (v *view) runByTools() (out []string) {
	for _, name := range v.names {
		if v.states[name].Now != nil && !modules(name) && RunByTools(name) {
			out = append(out, name)
		}
	}
	return out
}
