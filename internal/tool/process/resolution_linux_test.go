package process

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"palyra"
)

// fromMemory is a note that only remembered resolutions have here.
const fromMemory = "REMEMBERED"

// shelf is a box with two directories of programs that its room shows read-only, and a driver for which changes are old.
func shelf(b *box) {
	b.Helper()
	one, two := filepath.Join(b.out, "one"), filepath.Join(b.out, "two")
	b.beside("one/other", native("other"), 0o755)
	b.beside("two/tool", native("tool"), 0o755)
	b.beside("two/make", native("make"), 0o755)
	b.beside("two/script", "#!"+two+"/tool\n", 0o755)
	b.ok(os.Symlink("tool", filepath.Join(two, "alias")), os.Symlink("two", filepath.Join(b.out, "way")),
		os.Symlink("one/other", filepath.Join(b.out, "hop")), os.Symlink("../hop", filepath.Join(one, "perl")))
	b.mkdir("sub/deep")
	b.furnished(Fittings{Mounts: []palyra.Mount{asIs(b.out)}, Path: []string{one, two}})
	b.d.now = func() time.Time { return time.Now().Add(time.Hour) }
}

// marked marks everything that the driver remembers, and returns how much that is.
func (b *box) marked() int {
	c := b.d.resolved
	for e := c.order.Front(); e != nil; e = e.Next() {
		r := e.Value.(*cacheEntry[string, *resolution]).value
		if !slices.Contains(r.notes, fromMemory) {
			r.notes = append(r.notes, fromMemory)
		}
	}
	return c.order.Len()
}

// untouched changes how a file looks in as few ways as somebody can who wants nobody to notice: its times are put back.
func (b *box) untouched(path string, change func()) {
	b.Helper()
	var st unix.Stat_t
	b.ok(unix.Lstat(path, &st))
	change()
	b.ok(unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW))
}

// A resolution is taken from memory while nothing that it looked at changed, and never otherwise: then the plan is the
// one of a driver that remembers nothing.
func TestRememberedResolution(t *testing.T) {
	type change struct {
		name, line string
		do         func(b *box, at func(rel string) string)
		holds      bool
	}
	put := func(b *box, path, text string) { b.ok(os.WriteFile(path, []byte(text), 0o755), os.Chmod(path, 0o755)) }
	for _, c := range []change{
		{"nothing", "tool x", func(*box, func(string) string) {}, true},
		{"another file beside", "tool x", func(b *box, _ func(string) string) {
			b.beside("else", "x", 0o644)
			b.put("sub/x", "x", 0o644)
		}, true},
		{"link renamed and back", "OUT/way/tool x", func(b *box, at func(string) string) {
			b.ok(os.Rename(at("way"), at("w")), os.Rename(at("w"), at("way")))
		}, false}, // renaming a link changes its time
		{"directory renamed and back", "tool x", func(b *box, at func(string) string) {
			b.ok(os.Rename(b.out, b.out+"2"), os.Rename(b.out+"2", b.out))
		}, true},
		{"replaced", "tool x", func(b *box, at func(string) string) {
			put(b, at("new"), native("evil"))
			b.untouched(at("two/tool"), func() { b.ok(os.Rename(at("new"), at("two/tool"))) })
		}, false},
		{"written, times restored", "tool x", func(b *box, at func(string) string) {
			b.untouched(at("two/tool"), func() { put(b, at("two/tool"), native("evil")) })
		}, false},
		{"not executable", "tool x", func(b *box, at func(string) string) { b.ok(os.Chmod(at("two/tool"), 0o644)) }, false},
		{"shadowed", "tool x", func(b *box, at func(string) string) { put(b, at("one/tool"), native("evil")) }, false},
		{"directory replaced", "tool x", func(b *box, at func(string) string) {
			b.ok(os.Rename(at("two"), at("was")), os.Mkdir(at("two"), 0o755))
			put(b, at("two/tool"), native("evil"))
		}, false},
		{"directory a link", "tool x", func(b *box, at func(string) string) {
			b.ok(os.Rename(at("two"), at("was")), os.Symlink("was", at("two")))
		}, false},
		{"link changed", "alias x", func(b *box, at func(string) string) {
			b.untouched(at("two/alias"), func() { b.ok(os.Remove(at("two/alias")), os.Symlink("make", at("two/alias"))) })
		}, false},
		{"link on the way changed", "OUT/way/tool x", func(b *box, at func(string) string) {
			put(b, at("one/tool"), native("evil"))
			b.untouched(at("way"), func() { b.ok(os.Remove(at("way")), os.Symlink("one", at("way"))) })
		}, false},
		{"interpreter written", "script x", func(b *box, at func(string) string) {
			b.untouched(at("two/tool"), func() { put(b, at("two/tool"), native("evil")) })
		}, false},
		{"script written", "script x", func(b *box, at func(string) string) {
			b.untouched(at("two/script"), func() { put(b, at("two/script"), "#!"+at("two")+"/make\n") })
		}, false},
		{"missing input appears", "make x", func(b *box, at func(string) string) { b.put("Makefile", "x:", 0o644) }, false},
		{"an interpreter's name for it", "tool x", func(b *box, at func(string) string) {
			b.ok(os.Symlink("../two/tool", at("one/python3")))
		}, false},
		{"an interpreter's name leads to it", "tool x", func(b *box, at func(string) string) {
			b.ok(os.Remove(at("hop")), os.Symlink("two/tool", at("hop")))
		}, false},
		{"working directory gone", "tool x IN", func(b *box, at func(string) string) { b.ok(os.Remove(b.path("sub/deep"))) }, false},
		{"working directory a link", "tool x IN", func(b *box, at func(string) string) {
			b.ok(os.Remove(b.path("sub/deep")), os.Mkdir(b.path("other"), 0o755))
			b.link("../other", "sub/deep")
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(b *box) {
				shelf(b)
				at := func(rel string) string { return filepath.Join(b.out, rel) }
				line, inside := strings.CutSuffix(strings.ReplaceAll(c.line, "OUT", b.out), " IN")
				a := run(line)
				if inside {
					a["cwd"] = "sub/deep"
				}
				b.must(a)
				if b.marked() != 1 {
					b.Fatal("it is not remembered")
				}
				c.do(b, at)
				got, err := b.plan(a)
				if remembered := slices.Contains(got.Detail.Notes, fromMemory); remembered != c.holds {
					b.Errorf("remembered: %v; %v", remembered, err)
				}
				got.Detail.Notes = slices.DeleteFunc(got.Detail.Notes, func(n string) bool { return n == fromMemory })
				b.d.resolved = newCache[string, *resolution](1)
				want, wantErr := b.plan(a)
				if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (wantErr == nil) {
					b.Errorf("%s\n%v, %v", diff, err, wantErr)
				}
			})
		})
	}
}

// What the run's user can write is read each time: a mapping changes it while nothing else tells.
func TestWritableInputsAreNotRemembered(t *testing.T) {
	each(t, func(b *box) {
		shelf(b)
		b.put("tool", native("own"), 0o755)
		b.put("Makefile", "x: y", 0o644)
		for _, line := range []string{"./tool x", "make x"} {
			was := b.must(run(line))
			if b.marked() != 0 {
				b.Errorf("%s is remembered", line)
			}
			for _, name := range []string{"tool", "Makefile"} {
				b.change(name)
			}
			if is := b.must(run(line)); is.Executable == was.Executable && slices.Equal(is.Inputs, was.Inputs) {
				b.Errorf("%s: a change is not seen", line)
			}
		}
	})
}

// change changes the last byte of a file through a mapping.
func (b *box) change(rel string) {
	b.Helper()
	f, err := os.OpenFile(b.path(rel), os.O_RDWR, 0)
	b.ok(err)
	defer func() { _ = f.Close() }()
	fi, err := f.Stat()
	b.ok(err)
	m, err := unix.Mmap(int(f.Fd()), 0, int(fi.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	b.ok(err)
	m[len(m)-1]++
	b.Cleanup(func() { _ = unix.Munmap(m) }) // until then nothing is written back
}

// What changed a moment ago may change again without a trace, and is looked at anew.
func TestFreshChangesAreNotRemembered(t *testing.T) {
	each(t, func(b *box) {
		shelf(b)
		b.d.now = time.Now
		b.must(run("tool x"))
		if b.marked() != 0 {
			b.Error("it is remembered")
		}
	})
}

// Whatever a resolution depends on keeps it apart from others.
func TestResolutionsAreKeptApart(t *testing.T) {
	base := func() (userRights, arguments, palyra.Plan) {
		return userRights{uid: 1, groups: []uint32{2}}, arguments{Command: "c", Args: []string{"a", "b"}},
			palyra.Plan{Tier: palyra.TierC, Workspace: palyra.WorkspaceRef{Path: "/w", Owner: 1}}
	}
	keys := map[string]string{}
	add := func(name string, change func(u *userRights, a *arguments, p *palyra.Plan), asked string, lookup ...string) {
		u, a, p := base()
		change(&u, &a, &p)
		key := resolutionKey(u, asked, a, lookup, &p)
		if was, twice := keys[key]; twice || key == "" {
			t.Errorf("%s is the same as %s: %q", name, was, key)
		}
		keys[key] = name
	}
	same := func(*userRights, *arguments, *palyra.Plan) {}
	add("base", same, "/w", "/bin")
	add("asked", same, "/v", "/bin")
	add("lookup", same, "/w", "/bin", "/usr/bin")
	for name, change := range map[string]func(u *userRights, a *arguments, p *palyra.Plan){
		"uid":       func(u *userRights, _ *arguments, _ *palyra.Plan) { u.uid = 9 },
		"groups":    func(u *userRights, _ *arguments, _ *palyra.Plan) { u.groups = []uint32{2, 3} },
		"args":      func(_ *userRights, a *arguments, _ *palyra.Plan) { a.Args = []string{"a b"} },
		"split":     func(_ *userRights, a *arguments, _ *palyra.Plan) { a.Args = []string{"ab", ""} },
		"cwd":       func(_ *userRights, a *arguments, _ *palyra.Plan) { a.Cwd = "sub" },
		"command":   func(_ *userRights, a *arguments, _ *palyra.Plan) { a.Command = "d" },
		"tier":      func(_ *userRights, _ *arguments, p *palyra.Plan) { p.Tier = palyra.TierB },
		"workspace": func(_ *userRights, _ *arguments, p *palyra.Plan) { p.Workspace.Path = "/v" },
		"owner":     func(_ *userRights, _ *arguments, p *palyra.Plan) { p.Workspace.Owner = 7 },
		"stdin":     func(_ *userRights, _ *arguments, p *palyra.Plan) { p.Stdin = palyra.StdinLive },
		"socket":    func(_ *userRights, _ *arguments, p *palyra.Plan) { p.AgentSocket = true },
		"terminal":  func(_ *userRights, _ *arguments, p *palyra.Plan) { p.Terminal = true },
		"notes":     func(_ *userRights, _ *arguments, p *palyra.Plan) { p.Detail.Notes = []string{"n"} },
		"mount": func(_ *userRights, _ *arguments, p *palyra.Plan) {
			p.Mounts = []palyra.Mount{{Source: "/s", Target: "/t"}}
		},
		"its target": func(_ *userRights, _ *arguments, p *palyra.Plan) {
			p.Mounts = []palyra.Mount{{Source: "/s", Target: "/u"}}
		},
		"writable": func(_ *userRights, _ *arguments, p *palyra.Plan) {
			p.Mounts = []palyra.Mount{{Source: "/s", Target: "/t", Writable: true}}
		},
		"file": func(_ *userRights, _ *arguments, p *palyra.Plan) { p.Files = []palyra.RoomFile{{Target: "/f"}} },
	} {
		add(name, change, "/w", "/bin")
	}
	u, a, p := base()
	p.Inputs = []palyra.Input{{Path: "x"}}
	if resolutionKey(u, "/w", a, nil, &p) != "" {
		t.Error("a plan that has inputs already")
	}
	p.Inputs, a.Args = nil, []string{strings.Repeat("x", maxResolutionKey)}
	if resolutionKey(u, "/w", a, nil, &p) != "" {
		t.Error("a long command")
	}
}
