package process

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/subpath"
)

// furnished makes the box one of tier C, with a profile for every command.
func (b *box) furnished(r Fittings) {
	b.Helper()
	b.d = driver(b, Config{Tiers: everywhere{}, Tier: palyra.TierC, Profiles: profiles{"dev": r}})
}

// beside makes a file in the directory beside the workspace.
func (b *box) beside(rel, content string, mode os.FileMode) string {
	b.Helper()
	p := filepath.Join(b.out, rel)
	b.ok(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), 0o600), os.Chmod(p, mode))
	b.own(p)
	return p
}

func mounts(all ...palyra.Mount) Fittings { return Fittings{Mounts: all} }

func asIs(dir string) palyra.Mount { return palyra.Mount{Source: dir, Target: dir} }

// The system's programs and the workspace's are found; the latter are sealed.
func TestRoomShowsSystemAndWorkspace(t *testing.T) {
	each(t, func(b *box) {
		b.furnished(Fittings{})
		for _, name := range []string{"touch", "sh", "awk", "env"} { // awk is often a link to a link in /etc
			real, content := b.system(name)
			p := b.must(args{"command": name})
			if p.Executable != (palyra.Executable{Path: real, Digest: palyra.SumBytes([]byte(content))}) {
				b.Errorf("%s: %+v, want %s", name, p.Executable, real)
			}
		}
		content := b.put("bin/tool", native("x"), 0o755)
		for _, command := range []string{"bin/tool", b.path("bin/tool"), "./bin/../bin/tool"} {
			p := b.must(args{"command": command})
			if p.Executable != (palyra.Executable{Path: b.path("bin/tool"), Digest: palyra.SumBytes([]byte(content)), Sealed: true}) {
				b.Errorf("%s: %+v", command, p.Executable)
			}
		}
	})
}

// What the room does not show is refused alike, whether or not it is there.
func TestRoomHidesTheRest(t *testing.T) {
	each(t, func(b *box) {
		b.furnished(Fittings{})
		out := b.beside("prog", native("x"), 0o755)
		b.link(out, "link")
		b.link(b.out, "dir")
		b.put("script", "#!"+out+"\n", 0o755)
		for _, command := range []string{
			out, out + "-that-is-not-there", "./link", "dir/prog", "../out/prog", "/root/x", "/home/x", "/tmp/x",
			"/nonexistent", "/etc/passwd", "/run/x",
		} {
			b.refused(palyra.ReasonNotExecutable, "palyra setup", args{"command": command})
		}
		b.refused(palyra.ReasonNotExecutable, "--profile", run("./script"))
		b.refused(palyra.ReasonNotExecutable, "--profile", run("env "+out))
		_, there := b.plan(args{"command": out})
		_, missing := b.plan(args{"command": out + "z"})
		if was, is := palyra.AsError(there), palyra.AsError(missing); strings.ReplaceAll(is.Text, "progz", "prog") != was.Text ||
			is.Remedy != was.Remedy || is.Code != was.Code {
			b.Errorf("%q, %q", was.Text, is.Text)
		}
		for _, command := range []string{"/proc/self/exe", "/dev/null", "/sys/x"} {
			b.refused(palyra.ReasonPathInvalid, "name the file itself", args{"command": command})
		}
		b.refused(palyra.ReasonFileNotFound, "palyra setup", args{"command": "no-such-program"})
		b.refused(palyra.ReasonFileNotFound, "check the path", args{"command": "./no-such-program"})
		b.d = driver(b, Config{}) // tier B sees it
		if p := b.must(args{"command": out}); p.Executable.Path != out {
			b.Errorf("%+v", p.Executable)
		}
	})
}

// Scripts that the room does not show are missing for the program.
func TestHiddenInputs(t *testing.T) {
	each(t, func(b *box) {
		b.furnished(Fittings{Files: []palyra.RoomFile{
			{Target: "/home/agent/made.py", Text: "x"},
			{Target: filepath.Join(b.out, "made.py"), Text: "y"},
		}})
		b.tools("python3")
		out := b.beside("x.py", "secret", 0o644)
		b.beside("made.py", "another", 0o644)
		p := b.must(run("bin/python3 " + out))
		b.inputs(p, map[string]string{out: "-"})
		b.noted(p, out+" is not there for the program", true)
		p = b.must(run("bin/python3 /etc/hosts"))
		b.inputs(p, nil)
		b.noted(p, "/etc/hosts is not bound", true)
		for _, made := range []string{"/home/agent/made.py", filepath.Join(b.out, "made.py")} {
			p = b.must(run("bin/python3 " + made))
			b.inputs(p, nil)
			b.noted(p, "not bound: it", false)
			b.refused(palyra.ReasonNotExecutable, "name a program", args{"command": made})
		}
		b.put("x.py", "mine", 0o644)
		b.inputs(b.must(run("bin/python3 x.py")), map[string]string{"x.py": "mine"})
	})
}

// What a profile mounts is found, by whatever path the room has it.
func TestMounts(t *testing.T) {
	each(t, func(b *box) {
		content := b.beside("bin/node", native("n"), 0o755)
		want := palyra.SumBytes([]byte(native("n")))
		b.ok(os.Symlink("node", filepath.Join(b.out, "bin/near")), os.Symlink(content, filepath.Join(b.out, "bin/far")),
			os.Symlink("../../etc", filepath.Join(b.out, "up")))
		b.furnished(Fittings{Mounts: []palyra.Mount{asIs(b.out)}, Path: []string{b.out + "/bin"}})
		for _, command := range []string{content, "node", "near", "far", b.out + "/bin/near", b.dir + "/../out/bin/node"} {
			p := b.must(args{"command": command})
			if p.Executable != (palyra.Executable{Path: content, Digest: want}) {
				b.Errorf("%s: %+v", command, p.Executable)
			}
		}
		b.furnished(Fittings{Mounts: []palyra.Mount{{Source: b.out, Target: "/opt2/tools"}}, Path: []string{"/opt2/tools/bin"}})
		for _, command := range []string{
			"node", "near", "/opt2/tools/bin/node", "/opt2/../opt2/tools/bin/near",
			"/opt2/tools/../tools/bin/node",
		} {
			p := b.must(args{"command": command})
			if p.Executable != (palyra.Executable{Path: "/opt2/tools/bin/node", Digest: want}) {
				b.Errorf("%s: %+v", command, p.Executable)
			}
		}
		// not by the outside's paths
		for _, command := range []string{content, "far", "/opt2/tools/bin/far", "/opt2/tools/../../" + b.out + "/bin/node", "/opt2/bin/node"} {
			b.refused(palyra.ReasonNotExecutable, "--profile", args{"command": command})
		}
		b.furnished(mounts(palyra.Mount{Source: content, Target: "/x/y/one"})) // a file by itself
		if p := b.must(args{"command": "/x/y/one"}); p.Executable != (palyra.Executable{Path: "/x/y/one", Digest: want}) {
			b.Errorf("%+v", p.Executable)
		}
		b.furnished(mounts(palyra.Mount{Source: b.out + "/gone", Target: "/x"}))
		b.refused(palyra.ReasonFileNotFound, "check the path", args{"command": "/x/y"})
		b.must(run("touch x"))
	})
}

// A mount's programs are sealed exactly when the run can write them.
func TestMountsThatCanBeWritten(t *testing.T) {
	each(t, func(b *box) {
		b.beside("prog", native("x"), 0o755)
		b.put("tools/prog", native("y"), 0o755)
		for _, c := range []struct {
			mount  palyra.Mount
			sealed bool
		}{
			{asIs(b.out), false},
			{palyra.Mount{Source: b.out, Target: "/home/agent/.cache/x", Writable: true}, true},
			{palyra.Mount{Source: b.path("tools"), Target: "/srv/tools"}, true}, // the workspace, by another path
		} {
			b.furnished(mounts(c.mount))
			if p := b.must(args{"command": c.mount.Target + "/prog"}); p.Executable.Sealed != c.sealed {
				b.Errorf("%+v: %+v", c.mount, p.Executable)
			}
		}
		b.furnished(mounts(asIs(b.out), palyra.Mount{Source: b.out, Target: "/home/agent/w", Writable: true}))
		if p := b.must(args{"command": b.out + "/prog"}); !p.Executable.Sealed {
			b.Error("it can be written by another path")
		}
	})
}

// A link in the workspace that leads to a program of a mount may be changed.
func TestLinksInTheRoom(t *testing.T) {
	each(t, func(b *box) {
		prog := b.beside("sh", native("x"), 0o755)
		b.furnished(mounts(asIs(b.out)))
		b.link(prog, "l")
		p := b.must(run("env ./l"))
		b.noted(p, "could change it or the way to it", true)
		p = b.must(run("env " + prog))
		b.noted(p, "could change it or the way to it", false)
	})
}

// The way to a mount must be one that the run's user could go.
func TestMountsOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		return // there are no others to make files for
	}
	b := newBox(t, nobody)
	b.beside("closed/bin/prog", native("x"), 0o755)
	b.ok(os.Chmod(b.out+"/closed", 0o700), os.Chown(b.out+"/closed", 0, 0))
	for _, m := range []palyra.Mount{
		asIs(b.out + "/closed/bin"),
		{Source: b.out + "/closed/bin/prog", Target: "/x/prog"},
		{Source: b.out + "/closed/bin", Target: "/x"},
	} {
		b.furnished(mounts(m))
		command := m.Target + "/prog"
		if filepath.Base(m.Source) == "prog" {
			command = m.Target
		}
		b.refused(palyra.ReasonPermission, "permissions", args{"command": command})
	}
	b.furnished(mounts(palyra.Mount{Source: b.out + "/closed/bin", Target: "/x", Writable: true})) // a cache: the daemon's to give
	b.must(args{"command": "/x/prog"})
	b.ok(os.Symlink(b.out+"/closed/bin", b.out+"/way"))
	b.furnished(mounts(palyra.Mount{Source: b.out + "/way", Target: "/x"})) // by a link neither
	b.refused(palyra.ReasonPermission, "permissions", args{"command": "/x/prog"})
}

// The profile's directories come first, and their interpreters are known as such.
func TestProfilePath(t *testing.T) {
	each(t, func(b *box) {
		mine := b.beside("bin/touch", native("mine"), 0o755)
		b.beside("bin/python3", native("py"), 0o755)
		b.ok(os.Link(b.out+"/bin/python3", b.out+"/odd"))
		b.put("x.py", "1", 0o644)
		b.furnished(Fittings{Mounts: []palyra.Mount{{Source: b.out, Target: "/t"}}, Path: []string{"/t/bin"}})
		p := b.must(run("touch x"))
		if p.Executable.Path != "/t/bin/touch" || p.Executable.Digest != palyra.SumBytes([]byte(native("mine"))) {
			b.Errorf("%+v, not %s", p.Executable, mine)
		}
		if p.Env[len(p.Env)-1] != variable("PATH", "/t/bin:"+cell.SearchPath) {
			b.Errorf("%+v", p.Env)
		}
		b.inputs(b.must(run("/t/odd x.py")), map[string]string{"x.py": "1"}) // a hard link of an interpreter
	})
}

// Files that the room shows read-only are hashed once, the others each time.
func TestDigestsAreKept(t *testing.T) {
	each(t, func(b *box) {
		out := b.beside("prog", native("x"), 0o755)
		b.put("prog", native("x"), 0o755)
		b.furnished(mounts(asIs(b.out)))
		b.d.now = func() time.Time { return time.Now().Add(time.Hour) }
		for _, c := range []struct {
			command string
			kept    int
		}{{b.path("prog"), 0}, {out, 1}, {out, 1}, {b.path("prog"), 1}} {
			b.must(args{"command": c.command})
			if n := b.d.digests.order.Len(); n != c.kept {
				b.Errorf("%s: %d digests kept, want %d", c.command, n, c.kept)
			}
		}
		b.ok(os.WriteFile(out, []byte(native("other")), 0o755))
		if p := b.must(args{"command": out}); p.Executable.Digest != palyra.SumBytes([]byte(native("other"))) {
			b.Error("an old digest")
		}
	})
}

func TestScriptPlan(t *testing.T) {
	each(t, func(b *box) {
		b.furnished(Fittings{Seals: []string{".git/hooks"}})
		sh, content := b.system("sh")
		p := b.must(args{"script": "echo a\necho b", "stdin": "x"})
		if p.Executable != (palyra.Executable{Path: sh, Digest: palyra.SumBytes([]byte(content))}) || p.Argv[2] != "echo a\necho b" {
			b.Errorf("%+v", p)
		}
		if p.Detail.Summary != `run script "echo a\necho b" < "x"` {
			b.Error(p.Detail.Summary)
		}
		b.noted(p, `the script has 13 bytes and is run by sh: "echo a\necho b"`, true)
		b.noted(p, "profile dev", true)
		b.refused(palyra.ReasonStdinDenied, "stdin", args{"script": "cat", "stdin_live": true})
		if long := b.must(args{"script": strings.Repeat("echo\n", 20000)}); len(long.Detail.Summary) > 1000 {
			b.Error(len(long.Detail.Summary))
		}
	})
}

// Each part of a room by itself gives another digest.
func TestEveryPartOfTheRoomIsBound(t *testing.T) {
	each(t, func(b *box) {
		base := func() Fittings {
			r := full()
			r.Egress = []string{"a:1"}
			return r
		}
		digest := func(change func(*Fittings)) palyra.Digest {
			r := base()
			change(&r)
			b.furnished(r)
			return b.digest(run("touch x"))
		}
		was := digest(func(*Fittings) {})
		seen := map[palyra.Digest]string{was: "base"}
		changes := map[string]func(*Fittings){
			"mount": func(r *Fittings) { r.Mounts = r.Mounts[1:] }, "source": func(r *Fittings) { r.Mounts[0].Source = "/srv/y" },
			"target":   func(r *Fittings) { r.Mounts[0].Target = "/srv/y" },
			"writable": func(r *Fittings) { r.Mounts[0].Writable = true }, "file": func(r *Fittings) { r.Files = r.Files[1:] },
			"text": func(r *Fittings) { r.Files[0].Text = "x" },
			"seal": func(r *Fittings) { r.Seals = r.Seals[1:2] }, "env": func(r *Fittings) { r.Env[0].Value = "x" },
			"path":   func(r *Fittings) { r.Path = []string{"/srv/z"} },
			"egress": func(r *Fittings) { r.Egress = []string{"a:2"} }, "unix": func(r *Fittings) { r.UnixSockets = false },
			"asks": func(r *Fittings) { r.Asks = false },
		}
		for _, name := range slices.Sorted(maps.Keys(changes)) {
			d := digest(changes[name])
			if twin := seen[d]; twin != "" {
				b.Errorf("%s and %s have one digest", name, twin)
			}
			seen[d] = name
		}
		if digest(func(r *Fittings) {
			slices.Reverse(r.Mounts)
			slices.Reverse(r.Files)
			slices.Reverse(r.Seals)
			r.Notes = nil
		}) != was {
			b.Error("the order, or a note, is bound")
		}
	})
}

// A room has no way out by its paths: whatever the spelling, what is found is
// shown.
func FuzzRoom(f *testing.F) {
	for _, s := range []string{
		"/mnt/x/prog", "/mnt/../mnt/x/link", "ws-link/prog", "/usr/bin/../../etc/passwd", "//mnt//x/./prog",
		"/mnt/x/up/prog", "a\x00b", "/proc/self/root/etc/passwd", "..", "/",
	} {
		f.Add(s)
	}
	top, err := filepath.EvalSymlinks(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	ws, out := filepath.Join(top, "ws"), filepath.Join(top, "out")
	for _, dir := range []string{ws, out + "/x"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			f.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		ws + "/ws-link": "/mnt/x", out + "/x/link": "/etc/passwd", out + "/x/up": "../..",
		out + "/x/root": "/",
	} {
		if err := os.Symlink(target, link); err != nil {
			f.Fatal(err)
		}
	}
	if err := os.WriteFile(out+"/x/prog", []byte(native("x")), 0o755); err != nil {
		f.Fatal(err)
	}
	d := driver(f, Config{Tiers: everywhere{}})
	ref := palyra.WorkspaceRef{Path: ws, Owner: int64(os.Geteuid())}
	user, err := runUser(ref)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, p string) {
		w := d.world(t.Context(), user, ws)
		w.cwd, w.view = ws, newView(palyra.Plan{Workspace: ref, Mounts: []palyra.Mount{{Source: out + "/x", Target: "/mnt/x"}}})
		at, err := w.walk(w.abs(p))
		if err != nil {
			return
		}
		defer at.close()
		if at.real != filepath.Clean(at.real) || at.host == "" && !w.view.above[at.real] && at.real != "/" {
			t.Fatalf("%q: %+v", p, at)
		}
		for _, ok := range append([]string{ws, out + "/x"}, system...) {
			if at.host == "" || subpath.Within(ok, at.host) {
				return
			}
		}
		t.Fatalf("%q leads to %s", p, at.host)
	})
}
