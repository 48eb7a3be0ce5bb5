package sandboxtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
)

// seals: whatever a program does, when its call is over every sealed path is as it was, and there is no new one.
func seals(t *testing.T, b *bench) {
	if b.lacks(t, sealsPaths) {
		return // the class "trusted later" shows what that means
	}
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+rwX", b.ws).Run() }) // or it cannot be removed
	b.project(t, b.ws)
	before := sealed(t, b.ws)
	if len(before) < 15 {
		t.Fatalf("only %d sealed paths: %v", len(before), slices.Sorted(maps.Keys(before)))
	}
	tried := attacks
	if !b.thorough(t) { // all in one run
		all := attack{name: "all of them"}
		for _, a := range attacks {
			all.script += "(\n" + a.script + "\n)\n"
			all.makes = append(all.makes, a.makes...)
		}
		all.alone, tried = true, []attack{all}
	}
	for _, a := range tried {
		t.Run(a.name, func(t *testing.T) { b.fends(t, a, before) })
	}
	hardLinked(t, b)
	changedSeals(t, b)
}

// fends checks that an attack changes nothing.
func (b *bench) fends(t *testing.T, a attack, before map[string]string) {
	e := b.attack(t, a)
	for _, d := range differences(before, sealed(t, b.ws)) {
		t.Errorf("%s\n%s%s", d, clip(e.stdout), clip(e.stderr))
	}
	for _, made := range a.makes {
		if !slices.ContainsFunc(e.Quarantined, func(q string) bool { return strings.Contains(q, made) }) {
			t.Errorf("quarantined %q, not %s: %s", e.Quarantined, made, clip(e.stderr))
		}
	}
	if len(a.makes) == 0 && len(e.Quarantined) > 0 {
		t.Errorf("quarantined %q", e.Quarantined)
	}
	if !a.alone {
		b.controlOfSeal(t, a)
	}
}

// attack is a script that tries to change sealed paths. PROBE is the probe.
type attack struct {
	name   string
	script string
	makes  []string // parts of paths that it makes; none: it can make none
	alone  bool     // only a sandbox could let it happen: there is no control
}

// attack runs one inside, in the workspace.
func (b *bench) attack(t *testing.T, a attack) ended {
	t.Helper()
	return b.run(t, order{
		argv: []string{"sh", "-c", a.script}, env: []string{"PROBE=" + b.probe},
		change: func(j *sandbox.Job) { j.Seals = b.Seals },
	})
}

// controlOfSeal runs the attack in a copy of the project outside: the comparison must see what it does.
func (b *bench) controlOfSeal(t *testing.T, a attack) {
	t.Helper()
	dir := b.base + "/control-" + random()
	b.dir(t, dir)
	defer func() { _ = exec.Command("chmod", "-R", "u+rwX", dir).Run(); _ = os.RemoveAll(dir) }()
	b.project(t, dir)
	before := sealed(t, dir)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", a.script)
	cmd.Dir, cmd.SysProcAttr, cmd.Env = dir, b.who.credential(), []string{
		"PROBE=" + b.tool, "PATH=" + cell.SearchPath, "HOME=" + dir,
		"TMPDIR=" + dir,
	}
	out, _ := cmd.CombinedOutput() // some attacks end in an error of their own
	if len(differences(before, sealed(t, dir))) == 0 {
		t.Errorf("control: outside it changes nothing either: %s", out)
	}
}

// projectScript makes a workspace with everything in it that is sealed by default.
const projectScript = `set -e; umask 022
git init -q -b main . && echo text > file && git add file && git -c user.name=a -c user.email=a@example.org commit -q -m one
mkdir -p .git/info && echo '*.x -text' > .git/info/attributes && printf '#!/bin/sh\n' > .git/hooks/pre-push && chmod +x .git/hooks/pre-push
mkdir -p deep/er/repo && git init -q deep/er/repo && echo 'export A=1' > .envrc && echo 'export B=1' > deep/.envrc
mkdir -p .vscode .idea .github/workflows .husky .palyra deep/er/.vscode .claude plain/dir
echo '{}' > .vscode/tasks.json; echo '{}' > deep/er/.vscode/settings.json; echo x > .idea/workspace.xml; echo x > .github/workflows/ci.yml
echo x > .husky/pre-commit; echo x > .gitlab-ci.yml; echo '{}' > .mcp.json; echo '{}' > .claude/settings.json; echo x > .palyra/x; echo x > plain/dir/file
rm -f .git/hooks/*.sample deep/er/repo/.git/hooks/*.sample`

// project makes one in a directory: the first of a bench by the script, the others are copies.
func (b *bench) project(t *testing.T, dir string) {
	t.Helper()
	first := b.base + "/project"
	if _, err := os.Stat(first); err != nil {
		b.dir(t, first)
		b.outsideRun(t, first, projectScript)
	}
	b.outsideRun(t, dir, "cp -a "+first+"/. .")
}

// outsideRun runs a script without any sandbox, as the owner.
func (b *bench) outsideRun(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir, cmd.SysProcAttr = dir, b.who.credential()
	cmd.Env = []string{"PATH=" + cell.SearchPath, "HOME=" + b.base, "GIT_CONFIG_NOSYSTEM=1"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
}

// sealed lists the paths below a directory that must stay, with everything relevant about them. It
// decides by itself which they are, not by the seal package.
func sealed(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, name)
		if errors.Is(err, fs.ErrPermission) { // a run closed it: open it for a look
			return lookInto(t, all, rel, name)
		}
		if err != nil {
			all[rel] = err.Error()
			return nil
		}
		if rel == ".palyra/quarantine" {
			return filepath.SkipDir
		}
		if isSealed(rel) || isBare(name, d) {
			all[rel] = looks(t, name)
		}
		return nil
	})
	check(t, err)
	return all
}

// lookInto adds what is sealed in a directory that its owner may not read.
func lookInto(t *testing.T, all map[string]string, rel, name string) error {
	st, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if err := os.Chmod(name, 0o700); err != nil {
		return err
	}
	for below, text := range sealed(t, name) {
		if rel := path.Join(rel, below); isSealed(rel) {
			all[rel] = text
		}
	}
	return os.Chmod(name, st.Mode())
}

// sealedNames stay wherever they are, with everything below them.
var sealedNames = strings.Fields(
	".envrc .vscode .idea .husky .palyra .claude .mcp.json .gitlab-ci.yml .pre-commit-config.yaml .exrc .circleci .cursor")

func isSealed(rel string) bool {
	parts := strings.Split(rel, "/")
	for i, p := range parts {
		switch {
		case slices.Contains(sealedNames, p):
			return true
		case p == ".github" && i+1 < len(parts) && parts[i+1] == "workflows":
			return true
		case p == ".git" && ofGit(parts[i+1:]):
			return true
		}
	}
	return false
}

// ofGit: what decides which programs git runs. The directory itself counts, so
// that another one in its place is seen.
func ofGit(below []string) bool {
	switch {
	case len(below) == 0:
		return true
	case below[0] == "modules" || below[0] == "worktrees": // with names that may have several parts
		return slices.ContainsFunc(below, gitRuns) || strings.HasSuffix(path.Join(below...), "/info/attributes")
	}
	return gitRuns(below[0]) || path.Join(below...) == "info/attributes"
}

func gitRuns(name string) bool {
	return slices.Contains([]string{"config", "config.worktree", "hooks", "commondir"}, name)
}

// isBare reports whether a directory is a repository by what is in it.
func isBare(name string, d fs.DirEntry) bool {
	if !d.IsDir() || d.Name() == ".git" {
		return false
	}
	for _, part := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(name + "/" + part); err != nil {
			return false
		}
	}
	return true
}

// looks describes a path, without what reading it changes. The time of directories is left out:
// .git itself is written to.
func looks(t *testing.T, name string) string {
	t.Helper()
	st, err := os.Lstat(name)
	check(t, err)
	s := st.Sys().(*syscall.Stat_t)
	text := fmt.Sprintf("%v ino %d owner %d:%d links", st.Mode(), s.Ino, s.Uid, s.Gid)
	switch {
	case st.Mode().IsRegular():
		data, err := os.ReadFile(name)
		text += fmt.Sprintf(" %d size %d mtime %d sum %x %v", s.Nlink, st.Size(), st.ModTime().UnixNano(), sha256.Sum256(data), err)
	case st.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(name)
		text += fmt.Sprintf(" %d to %q %v", s.Nlink, to, err)
	}
	return text
}

func differences(before, after map[string]string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if was, ok := before[name]; !ok {
			all = append(all, "new: "+name)
		} else if was != after[name] {
			all = append(all, "changed: "+name+": "+was+" → "+after[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[name]; !ok {
			all = append(all, "gone: "+name)
		}
	}
	return all
}

// hardLinked: a sealed file with a second name could be written by that one.
func hardLinked(t *testing.T, b *bench) {
	t.Helper()
	other := b.ws + "/plain/other"
	check(t, os.Link(b.ws+"/.envrc", other))
	defer func() { check(t, os.Remove(other)) }()
	j, _, _ := b.job(t, order{argv: []string{"true"}, change: func(j *sandbox.Job) { j.Seals = b.Seals }})
	p, err := b.backend.Start(t.Context(), j)
	if err == nil {
		_, _ = p.Wait()
	}
	if palyra.AsError(err).Reason != palyra.ReasonSealDenied {
		t.Errorf("a sealed file has two names: %v", err)
	}
}

// changedSeals: what changes between two calls is kept as it is at the second,
// though something was made ready for the first.
func changedSeals(t *testing.T, b *bench) {
	t.Helper()
	for i := range 3 {
		name := fmt.Sprintf("plain/new%d", i)
		b.dir(t, b.ws+"/"+name)
		b.file(t, name+"/.envrc", "export C=1\n")
		before := sealed(t, b.ws)
		e := b.attack(t, attack{script: "echo evil >> " + name + "/.envrc; rm -f " + name + "/.envrc; mv " + name +
			" plain/gone; echo evil > " + name + "/.envrc"})
		for _, d := range differences(before, sealed(t, b.ws)) {
			t.Errorf("made after a cell was ready: %s: %s", d, clip(e.stderr))
		}
	}
}
