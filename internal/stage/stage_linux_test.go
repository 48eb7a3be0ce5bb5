package stage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/owner"
)

// self is who the tests are.
func self() owner.Identity {
	return owner.Identity{UID: int64(os.Geteuid()), GID: int64(os.Getegid())}
}

// bench is a workspace and a place for stages.
type bench struct {
	t   testing.TB
	all *Stages
	ws  string
}

func newBench(t testing.TB) *bench {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	check(t, err)
	b := &bench{t: t, ws: filepath.Join(base, "ws")}
	check(t, os.Mkdir(b.ws, 0o755))
	b.all, err = Open(filepath.Join(base, "stages"), Limits{}, slog.New(slog.DiscardHandler))
	check(t, err)
	t.Cleanup(func() { _ = b.all.Close() })
	return b
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bench) write(rel, text string) {
	b.t.Helper()
	file := filepath.Join(b.ws, rel)
	check(b.t, os.MkdirAll(filepath.Dir(file), 0o755))
	check(b.t, os.WriteFile(file, []byte(text), 0o644))
}

// stage makes one with bound files on it.
func (b *bench) stage(bound ...Bound) *Stage {
	b.t.Helper()
	g, err := b.all.Make(b.ws, self())
	check(b.t, err)
	b.t.Cleanup(g.Drop)
	check(b.t, g.Place(b.t.Context(), bound))
	return g
}

// run runs a script in the workspace on a stage, as a room would.
func (b *bench) run(g *Stage, script string) string {
	b.t.Helper()
	return b.mounted(g, script)
}

// mounted is run for who has no test at hand.
func (b *bench) mounted(g *Stage, script string) string {
	up := g.Path()
	mount := fmt.Sprintf("mount -t overlay overlay -o userxattr,volatile,lowerdir=%s,upperdir=%s/upper,workdir=%s/work %s && cd %s && ",
		b.ws, up, up, b.ws, b.ws)
	cmd := exec.Command("unshare", "-Urm", "sh", "-c", mount+"exec sh")
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	if err != nil && b.t != nil {
		b.t.Logf("%s: %v", out, err)
	}
	return string(out)
}

func (b *bench) keep(g *Stage) Settled {
	b.t.Helper()
	e, err := g.Keep(b.t.Context(), nil, nil)
	check(b.t, err)
	return e
}

// tree is all that is in a directory: kinds, modes, targets and content.
func tree(t *testing.T, top string) map[string]string {
	t.Helper()
	out := map[string]string{}
	check(t, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := os.Lstat(path)
		if err != nil {
			return err
		}
		text := fi.Mode().String()
		switch fi.Mode().Type() {
		case 0:
			b, err := os.ReadFile(path)
			if err != nil && os.Geteuid() == 0 {
				return err
			}
			text += " " + string(b)
			names := make([]byte, 4096)
			if n, err := unix.Llistxattr(path, names); err == nil && n > 0 {
				text += " xattrs " + string(names[:n])
			}
		case fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " " + target
		}
		out[strings.TrimPrefix(path, top)] = text
		return nil
	}))
	return out
}

func sumOf(t *testing.T, text string) string {
	t.Helper()
	sum, err := copySum(t.Context(), &strings.Builder{}, strings.NewReader(text))
	check(t, err)
	return sum
}

// What was checked is what is found, whatever somebody does to the file meanwhile:
// also where there was none.
func TestBoundFilesStay(t *testing.T) {
	b := newBench(t)
	b.write("s.sh", "echo good\n")
	b.write("d/e/t.sh", "echo good too\n")
	check(t, os.Symlink("s.sh", filepath.Join(b.ws, "link")))
	g := b.stage(
		Bound{Path: "s.sh", Digest: sumOf(t, "echo good\n")}, Bound{Path: "d/e/t.sh", Digest: sumOf(t, "echo good too\n")},
		Bound{Path: "GNUmakefile"}, Bound{Path: "none/at/all"}, Bound{Path: "link", Link: "s.sh"},
	)
	b.write("evil", "echo EVIL\n")
	check(t, os.Rename(filepath.Join(b.ws, "evil"), filepath.Join(b.ws, "s.sh")))
	check(t, os.Rename(filepath.Join(b.ws, "d"), filepath.Join(b.ws, "d2")))
	b.write("d/e/t.sh", "echo EVIL\n")
	b.write("GNUmakefile", "EVIL")
	b.write("none/at/all", "EVIL")
	b.write("evil", "echo EVIL\n")
	check(t, os.Remove(filepath.Join(b.ws, "link")))
	check(t, os.Symlink("evil", filepath.Join(b.ws, "link")))
	got := b.run(g, "sh s.sh; sh d/e/t.sh; cat GNUmakefile none/at/all; sh link")
	if strings.Contains(got, "EVIL") || strings.Count(got, "good") != 3 {
		t.Errorf("%q", got)
	}
	before := tree(t, b.ws)
	if e := b.keep(g); e.Kept != 0 || len(e.Conflicts) > 0 {
		t.Errorf("%+v", e)
	}
	if after := tree(t, b.ws); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("%v, then %v", before, after)
	}
}

func TestPlaceRefusesWhatChanged(t *testing.T) {
	b := newBench(t)
	b.write("s.sh", "good")
	b.write("there", "")
	check(t, os.Symlink("s.sh", filepath.Join(b.ws, "link")))
	check(t, unix.Mkfifo(filepath.Join(b.ws, "pipe"), 0o600))
	for _, bad := range []Bound{
		{Path: "s.sh", Digest: sumOf(t, "other")},
		{Path: "gone", Digest: sumOf(t, "")},
		{Path: "there"},
		{Path: "link", Digest: sumOf(t, "good")},
		{Path: "link", Link: "elsewhere"},
		{Path: "pipe", Digest: sumOf(t, "")},
		{Path: "s.sh/x", Digest: sumOf(t, "")},
	} {
		g, err := b.all.Make(b.ws, self())
		check(t, err)
		changed := (*ChangedError)(nil)
		if err := g.Place(t.Context(), []Bound{bad}); !errors.As(err, &changed) {
			t.Errorf("%+v: %v", bad, err)
		}
		g.Drop()
	}
	for _, bad := range []string{"", "..", "../x", "/etc/passwd", "a//b", "a/../b", strings.Repeat("a/", mostPath) + "a"} {
		g, err := b.all.Make(b.ws, self())
		check(t, err)
		if err := g.Place(t.Context(), []Bound{{Path: bad}}); err == nil {
			t.Errorf("%q was placed", bad)
		}
		g.Drop()
	}
}

// A staged run leaves the workspace as the same run leaves it when it writes there
// directly.
func TestStagedIsLikeLive(t *testing.T) {
	rounds := 12
	if os.Getenv("PALYRA_FAULTS") == "full" {
		rounds = 400
	}
	for i := range rounds {
		seed := rand.Int63()
		r := rand.New(rand.NewSource(seed))
		b := newBench(t)
		first := script(r, 25)
		live := filepath.Join(filepath.Dir(b.ws), "live")
		check(t, os.Mkdir(live, 0o755))
		for _, dir := range []string{b.ws, live} {
			shell(t, dir, first)
		}
		before := states(t, b.ws)
		g := b.stage()
		second := script(r, 25)
		shell(t, live, second)
		b.run(g, second)
		e := b.keep(g)
		if len(e.Conflicts) > 0 || e.Lost != "" {
			t.Fatalf("round %d, seed %d: %+v", i, seed, e)
		}
		sameChanges(t, between(before, states(t, b.ws)), e.Changes)
		want, got := tree(t, live), tree(t, b.ws)
		if fmt.Sprint(want) != fmt.Sprint(got) {
			t.Fatalf("round %d, seed %d: %s\nscript\n%s\nthen\n%s", i, seed, differing(want, got), first, second)
		}
	}
}

// differing names what is not the same in two trees.
func differing(want, got map[string]string) string {
	var all []string
	for path := range want {
		if got[path] != want[path] {
			all = append(all, fmt.Sprintf("%q is %q, want %q", path, got[path], want[path]))
		}
	}
	for path := range got {
		if want[path] == "" {
			all = append(all, fmt.Sprintf("%q is %q, want nothing", path, got[path]))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func shell(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(script)
	_ = cmd.Run() // steps that fail, fail on both sides
}

// script is a sequence of everyday steps on few names, so that they meet.
func script(r *rand.Rand, n int) string {
	names := []string{"a", "b", "c/d", "c", "c/d/e", "'q q'", "\"$(printf 'x\\377')\"", "f.txt", "c/f.txt"}
	pick := func() string { return names[r.Intn(len(names))] }
	var s strings.Builder
	for i := range n {
		switch r.Intn(12) {
		case 0:
			fmt.Fprintf(&s, "mkdir -p %s 2>/dev/null\n", pick())
		case 1:
			fmt.Fprintf(&s, "rm -rf %s\n", pick())
		case 2:
			fmt.Fprintf(&s, "mv -f %s %s 2>/dev/null </dev/null\n", pick(), pick())
		case 3:
			fmt.Fprintf(&s, "ln -sfn %s %s 2>/dev/null\n", pick(), pick())
		case 4:
			fmt.Fprintf(&s, "chmod %s %s 2>/dev/null\n", []string{"755", "750", "700", "u+x"}[r.Intn(4)], pick())
		case 5:
			fmt.Fprintf(&s, "cp -r %s copy%d 2>/dev/null\n", pick(), i)
		case 6:
			fmt.Fprintf(&s, "sed -i s/l/L/ %s 2>/dev/null\n", pick())
		case 7:
			fmt.Fprintf(&s, "touch -d 2020-01-02 %s 2>/dev/null\n", pick())
		default:
			fmt.Fprintf(&s, "mkdir -p c 2>/dev/null; echo line %[2]d >> %[1]s 2>/dev/null\n", pick(), i)
		}
	}
	return s.String()
}

// Nothing that somebody else changed since the run began is overwritten, removed
// or brought back; then nothing at all is kept.
func TestConflicts(t *testing.T) {
	for name, c := range map[string]struct{ run, other string }{
		"both wrote":               {"echo run > f", "echo other > f"},
		"both made":                {"echo run > new", "echo other > new"},
		"renamed over":             {"echo run > f", "echo other > x; mv x f"},
		"removed and written":      {"echo run >> f", "rm f"},
		"written and removed":      {"rm f", "echo other > f"},
		"a tree that grew":         {"rm -rf d", "echo other > d/new"},
		"a tree that was replaced": {"rm -rf d; mkdir d; echo run > d/x", "echo other > d/deep/f"},
		"a link in the way":        {"echo run > d/f", "mv d e; ln -s e d"},
		"a directory taken away":   {"echo run > d/f", "mv d e"},
		"a mode":                   {"chmod 700 d", "touch d/x; chmod 777 d"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("f", "old\n")
			b.write("d/f", "old\n")
			b.write("d/deep/f", "old\n")
			g := b.stage()
			b.run(g, c.run+"; echo more > aside")
			shell(t, b.ws, c.other)
			before := tree(t, b.ws)
			e, err := g.Keep(t.Context(), nil, nil)
			if err != nil || len(e.Conflicts) == 0 || e.Kept != 0 {
				t.Errorf("%+v, %v", e, err)
			}
			if after := tree(t, b.ws); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("%v, then %v", before, after)
			}
		})
	}
}

// Two runs at once on different files both keep their work; on the same one the
// second hears of it.
func TestTwoAtOnce(t *testing.T) {
	b := newBench(t)
	b.write("f", "old\n")
	one, two, three := b.stage(), b.stage(), b.stage()
	b.run(one, "echo one > one; echo one >> f")
	b.run(two, "echo two > two; mkdir d; echo two > d/x")
	b.run(three, "echo three >> f")
	for _, g := range []*Stage{one, two} {
		if e := b.keep(g); e.Kept == 0 || len(e.Conflicts) > 0 {
			t.Errorf("%+v", e)
		}
	}
	if e := b.keep(three); !slices.Equal(e.Conflicts, []string{"f"}) {
		t.Errorf("%+v", e)
	}
	if got := tree(t, b.ws); !strings.HasSuffix(got["/f"], " old\none\n") || got["/one"] == "" || got["/d/x"] == "" {
		t.Errorf("%v", got)
	}
	// What comes afterwards has the first one's work, and no quarrel with it.
	four := b.stage()
	b.run(four, "echo four >> f")
	if e := b.keep(four); e.Kept != 1 {
		t.Errorf("%+v", e)
	}
}

// What is never kept.
func TestNeverKept(t *testing.T) {
	b := newBench(t)
	b.write(".git/config", "old")
	b.write(".git/hooks/x", "old")
	b.write("set", "old")
	g := b.stage()
	b.run(g, "echo evil > .git/config; echo evil > .git/hooks/new; rm .git/hooks/x; echo fine > .git/index; chmod 6755 set; mkdir "+
		".envrc; echo new > .envrc/x")
	e, err := g.Keep(t.Context(), func(path string) (bool, bool) {
		return path == ".git/config" || path == ".git/hooks" || path == ".envrc", path == ".git"
	}, nil)
	check(t, err)
	got := tree(t, b.ws)
	if got["/.git/config"] != "-rw-r--r-- old" || got["/.git/hooks/x"] == "" || got["/.git/hooks/new"] != "" || got["/.git/index"] == "" ||
		got["/set"] != "-rwxr-xr-x old" {
		t.Errorf("%v", got)
	}
	if len(e.Refused) != 4 || got["/.envrc/x"] == "" { // a new one is for who looks for new ones
		t.Errorf("%+v", e)
	}
}

// A daemon that is killed in the middle of keeping leaves a list, and the next one
// does the rest: at every step.
func TestKilledWhileKeeping(t *testing.T) {
	t.Run("one file system", func(t *testing.T) { killed(t, (*bench).near) })
	t.Run("two file systems", func(t *testing.T) { killed(t, (*bench).elsewhere) })
}

func killed(t *testing.T, where func(*bench)) {
	t.Helper()
	const run = "rm -rf d; echo x > d; rm -r e; mkdir e; echo y > e/y; echo z >> f; mkdir -p n/m; echo n > n/m/o; chmod 500 n/m; " +
		"chmod 700 k; ln -s f l"
	for at := 0; ; at++ {
		b := newBench(t)
		where(b)
		b.write("d/1/2", "old")
		b.write("e/old", "old")
		b.write("f", "old\n")
		b.write("k/x", "old")
		live := filepath.Join(filepath.Dir(b.all.path), "live")
		check(t, os.CopyFS(live, os.DirFS(b.ws)))
		shell(t, live, run)
		before, p := states(t, b.ws), b.past()
		g := b.stage()
		b.run(g, run)
		check(t, g.Remember(p, "run"))
		steps := g.until(t, at)
		b.all.live = map[string]bool{} // of a daemon that is no more
		check(t, b.all.Recover(context.Background()))
		if want, got := tree(t, live), tree(t, b.ws); fmt.Sprint(want) != fmt.Sprint(got) {
			t.Fatalf("killed after %d of %d steps:\n%v\nwant\n%v", at, steps, got, want)
		}
		if left, _ := os.ReadDir(b.all.path); len(left) > 0 {
			t.Errorf("killed after %d steps: %v is left", at, left)
		}
		b.revert(p, "run", "undo")
		if diff := between(before, states(t, b.ws)); len(diff) > 0 {
			t.Errorf("killed after %d steps, and not taken back: %+v", at, diff)
		}
		for _, n := range names(t, p) {
			check(t, p.Forget(n))
		}
		_ = exec.Command("chmod", "-R", "700", b.ws, live).Run()
		if at >= steps {
			return
		}
	}
}

// until keeps as far as the n-th step, without noting that it was done.
func (g *Stage) until(t *testing.T, n int) int {
	t.Helper()
	k := newCommitter(g, g.changesSince())
	r := &reader{Stage: g, ctx: t.Context(), since: g.changesSince()}
	check(t, g.asOwner(func() error {
		if err := k.open(g.openWorkspace); err != nil {
			return err
		}
		r.upper, r.ws = k.Upper, k.Workspace
		return r.all()
	}))
	defer k.close()
	r.out.Changes = r.seen.List()
	check(t, k.remember(r, true))
	check(t, k.write(r.steps))
	check(t, g.asOwner(func() error {
		n := min(n, len(r.steps))
		if err := k.Do(r.steps[:n], 0, false); err != nil || n == len(r.steps) {
			return err
		}
		k.Count = func(int) error { return nil }
		return k.Do(r.steps[:n+1], n, false)
	}))
	return len(r.steps)
}

// What nobody began to keep is gone after a crash, and so is what a machine that
// stopped left.
func TestDroppedAfterACrash(t *testing.T) {
	b := newBench(t)
	b.write("f", "old\n")
	g := b.stage()
	b.run(g, "echo new > f; mkdir d; chmod 0 d")
	b.all.live = map[string]bool{}
	check(t, b.all.Recover(t.Context()))
	if got := tree(t, b.ws); len(got) != 2 || !strings.HasSuffix(got["/f"], "old\n") {
		t.Errorf("%v", got)
	}
	if left, _ := os.ReadDir(b.all.path); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestLimits(t *testing.T) {
	b := newBench(t)
	b.all.limits = Limits{Entries: 10, Bytes: 1 << 20}
	for _, run := range []string{"for i in 1 2 3 4 5 6 7 8 9 10 11; do echo > $i; done", "head -c 2000000 /dev/urandom > big"} {
		g := b.stage()
		b.run(g, run)
		over := (*LimitError)(nil)
		if _, err := g.Keep(t.Context(), nil, nil); !errors.As(err, &over) {
			t.Errorf("%s: %v", run, err)
		}
		if got := tree(t, b.ws); len(got) != 1 {
			t.Errorf("%s: %v", run, got)
		}
	}
}

// Lists are read from a disk: whatever is there, what comes out can be worked on.
func FuzzList(f *testing.F) {
	f.Add("{\"workspace\":\"/w\",\"steps\":[{\"do\":\"put\",\"path\":\"eA==\"}]}\n1")
	f.Add("{}\n")
	f.Add("{}\n-1")
	f.Fuzz(func(t *testing.T, text string) {
		l, done, size, err := readList(strings.NewReader(text))
		if err == nil && (done < 0 || done > len(l.Steps) || size > int64(len(text))) {
			t.Errorf("%d of %d, %d of %d bytes", done, len(l.Steps), size, len(text))
		}
	})
}

// While a run goes on it is known when it has more on its stage than is kept, whatever
// it makes of its directories.
func TestOver(t *testing.T) {
	b := newBench(t)
	b.write("f", "old")
	b.all.limits = Limits{Entries: 40, Bytes: 1 << 20}
	for run, want := range map[string]string{
		"true": "", "echo x > a; mkdir -p d/e; chmod 0 d/e": "",
		"mkdir d; for i in $(seq 41); do echo > d/$i; done":                "names",
		"for i in $(seq 41); do mkdir x; cd x; done":                       "names",
		"mkdir d; head -c 2000000 /dev/urandom > d/x":                      "bytes",
		"for i in $(seq 20); do ln f d$i; done; rm f; mkdir f":             "",
		"mkdir d; ln -s / d/out; ln -s .. d/up; mkfifo d/pipe":             "",
		"for i in $(seq 30); do head -c 40000 /etc/../dev/zero > $i; done": "bytes",
	} {
		g := b.stage()
		b.run(g, run)
		over := (*LimitError)(nil)
		if err := g.Over(); errors.As(err, &over) != (want != "") || want != "" && over.Of != want {
			t.Errorf("%s: %v, want %s", run, err, want)
		}
		g.Drop()
		if err := g.Over(); err != nil { // nothing is there
			t.Error(err)
		}
	}
}

// What was bound can be removed, renamed and replaced like anything else.
func TestBoundIsTheRunsToChange(t *testing.T) {
	digest := func(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }
	for script, want := range map[string]string{
		"rm f":                        "l:-> f",
		"mv f g":                      "g:text l:-> f",
		"mv f g; echo other > f":      "f:other g:text l:-> f",
		"rm f; mkdir f; echo x > f/y": "f/y:x l:-> f",
		"rm l":                        "f:text",
		"mv l m":                      "f:text m:-> f",
		"rm l; ln -s g l":             "f:text l:-> g",
		"echo x > a":                  "a:x f:text l:-> f",
		"echo x > a; rm a":            "f:text l:-> f",
		"mv f a":                      "a:text l:-> f",
		"touch -c f; chmod 600 f":     "f:text l:-> f",
	} {
		b := newBench(t)
		b.write("f", "text")
		check(t, os.Symlink("f", filepath.Join(b.ws, "l")))
		g := b.stage(Bound{Path: "f", Digest: digest("text")}, Bound{Path: "l", Link: "f"}, Bound{Path: "a"})
		if said := b.run(g, script); said != "" {
			t.Errorf("%s: %s", script, said)
		}
		e := b.keep(g)
		var got []string
		for path, text := range tree(t, b.ws) {
			if _, content, ok := strings.Cut(text, " "); ok {
				if text[0] == 'L' {
					content = "-> " + content
				}
				got = append(got, strings.TrimPrefix(path, "/")+":"+strings.TrimSpace(content))
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want || len(e.Conflicts)+len(e.Refused) > 0 || e.Lost != "" {
			t.Errorf("%s: %v, want %s; %+v", script, got, want, e)
		}
	}
}

// A bound file that somebody else changed while the run removed it stays.
func TestBoundRemovedAndChanged(t *testing.T) {
	b := newBench(t)
	b.write("f", "text")
	g := b.stage(Bound{Path: "f", Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("text")))})
	b.run(g, "rm f; echo x > n")
	b.write("f", "theirs")
	if e := b.keep(g); !slices.Equal(e.Conflicts, []string{"f"}) {
		t.Errorf("%+v", e)
	}
	if got := tree(t, b.ws); got["/f"] != "-rw-r--r-- theirs" || got["/n"] != "" {
		t.Errorf("%v", got)
	}
}
