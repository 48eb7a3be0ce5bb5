package stage

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/preimage"
)

// childVar has a test binary be another process: a daemon that can be killed, or a script.
const childVar = "PALYRA_STAGE_TEST"

// TestMain is the other processes too.
func TestMain(m *testing.M) {
	switch what := os.Getenv(childVar); what {
	case "":
		code := m.Run()
		if faultyDir != "" {
			_ = os.RemoveAll(faultyDir)
		}
		os.Exit(code)
	case "script":
		scriptChild()
	default:
		if err := actChild(what, os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// The run of all tests here that kill: every kind of step is in it.
const (
	killFirst = "mkdir -p d/1 e k; echo old > d/1/2; echo old > e/old; echo old > f; echo old > k/x; echo old > w; chmod 755 k"
	killRun   = "rm -rf d; echo x > d; rm -r e; mkdir e; echo y > e/y; echo z >> f; mkdir -p n/m; echo n > n/m/o; " +
		"chmod 500 n/m; chmod 700 k; ln -s f l; rm w"
)

// actChild is a daemon that does one thing, in the directory and the workspace that it is told.
func actChild(what, base, ws string) error {
	s, err := Open(filepath.Join(base, "stages"), Limits{}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	p, err := preimage.Open(filepath.Join(base, "past"))
	if err != nil {
		return err
	}
	s.Remember(p)
	ctx := context.Background()
	if err := errors.Join(p.Sweep(), p.Recover(ctx), s.Recover(ctx)); err != nil { // as every start does
		return err
	}
	switch what {
	case "recover":
		return nil
	case "keep", "hold":
		return actRun(ctx, s, p, ws, what == "hold")
	case "settle":
		out, err := s.Settle(ctx, "run", RulingKeep, nil, nil)
		if err == nil && (out.Kept == 0 || out.Lost != "" || len(out.Conflicts) > 0) {
			err = fmt.Errorf("settled: %+v", out)
		}
		if err == nil {
			s.Forget("run")
		}
		return err
	case "recorded":
		return s.DropHeld(ctx, func(string) bool { return false })
	case "forget":
		_, err := s.Settle(ctx, "run", RulingDrop, nil, nil)
		if errors.As(err, new(*NotHeldError)) { // it was done
			return nil
		}
		return err
	case "undo":
		return actRevert(ctx, s, p, "run", "run-undone")
	case "redo":
		return actRevert(ctx, s, p, "run-undone", "run-redone")
	case "add":
		return actAdd(p, ws)
	}
	return errors.New("nothing to do")
}

func actRun(ctx context.Context, s *Stages, p *preimage.Store, ws string, hold bool) error {
	g, err := s.Make(ws, self())
	if err != nil {
		return err
	}
	b := &bench{ws: ws}
	if said := b.mounted(g, killRun); said != "" {
		return errors.New(said)
	}
	if err := errors.Join(g.Assign("run"), g.Remember(p, "run")); err != nil {
		return err
	}
	ruling := RulingKeep
	if hold {
		ruling = RulingHold
	}
	out, err := g.Keep(ctx, nil, func(Found) Ruling { return ruling })
	g.Drop()
	if err == nil && (out.Held != hold || out.Remembered == hold) {
		err = fmt.Errorf("kept: %+v", out)
	}
	if err == nil {
		s.Forget("run")
	}
	return err
}

func actRevert(ctx context.Context, s *Stages, p *preimage.Store, from, as string) error {
	g, err := s.Revert(ctx, p, from)
	if err != nil {
		return err
	}
	defer g.Drop()
	if err := g.Remember(p, as); err != nil {
		return err
	}
	out, err := g.Keep(ctx, nil, nil)
	if err == nil && !out.Remembered {
		err = fmt.Errorf("taken back: %+v", out)
	}
	return err
}

// actAdd is what a file tool does.
func actAdd(p *preimage.Store, ws string) error {
	text := []byte("old\n")
	was := State{Kind: File, Mode: 0o644, Size: 4, Digest: digestText("old\n")}
	now := State{Kind: File, Mode: 0o644, Size: 4, Digest: digestText("new\n")}
	a, err := p.Add("run", ws, self(), []preimage.Former{{Change: Change{Path: "f", Was: was, Now: now}, Content: text}}, false)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(ws, "f"), []byte("new\n"), 0o644); err != nil {
		return err
	}
	return a.Commit()
}

func digestText(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

func slogDiscard() *slog.Logger { return slog.New(slog.DiscardHandler) }

var faultyDir string

// faulty is this test binary, built so that it can be made to crash.
var faulty = sync.OnceValues(func() (_ string, err error) {
	if faultyDir, err = os.MkdirTemp("", "palyra-stage-"); err != nil {
		return "", err
	}
	bin := filepath.Join(faultyDir, "stage.test")
	out, err := exec.Command("go", "test", "-c", "-tags", "faults", "-o", bin, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return bin, nil
})

// killBench is a workspace whose daemon is killed.
type killBench struct {
	t         *testing.T
	bin       string
	base, ws  string
	before    string
	after     string
	elsewhere bool
}

func newKillBench(t *testing.T, elsewhere bool) *killBench {
	t.Helper()
	bin, err := faulty()
	check(t, err)
	k := &killBench{t: t, bin: bin, elsewhere: elsewhere}
	k.furnish()
	k.before = fmt.Sprint(tree(t, k.ws))
	live := filepath.Join(k.base, "live")
	check(t, os.CopyFS(live, os.DirFS(k.ws)))
	check(t, os.Chmod(live, 0o755))
	shell(t, live, killRun)
	k.after = fmt.Sprint(tree(t, live))
	return k
}

// furnish makes everything anew.
func (k *killBench) furnish() {
	k.t.Helper()
	if k.base != "" {
		_ = exec.Command("chmod", "-R", "700", k.base, k.ws).Run()
		check(k.t, errors.Join(os.RemoveAll(k.base), os.RemoveAll(k.ws)))
	}
	b := newBench(k.t)
	check(k.t, b.all.Close())
	k.base, k.ws = filepath.Dir(b.ws), b.ws
	if k.elsewhere {
		check(k.t, os.Mkdir(b.all.path, 0o700))
		b.elsewhere()
		k.ws = b.ws
	}
	shell(k.t, k.ws, killFirst)
}

// act has a daemon do one thing; killed says whether it was, at the point.
func (k *killBench) act(what, point string) (killed bool) {
	k.t.Helper()
	cmd := exec.Command(k.bin, k.base, k.ws)
	cmd.Env = append(os.Environ(), childVar+"="+what, "PALYRA_FAULT="+point)
	out, err := cmd.CombinedOutput()
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		if st := e.Sys().(syscall.WaitStatus); st.Signaled() && st.Signal() == unix.SIGKILL {
			return true
		}
	}
	if err != nil {
		k.t.Fatalf("%s at %q: %v: %s", what, point, err, out)
	}
	return false
}

// points are the moments that an act passes, each with how often it was passed before.
func (k *killBench) points(what string) (all []string) {
	k.t.Helper()
	log := filepath.Join(k.base, "points")
	cmd := exec.Command(k.bin, k.base, k.ws)
	cmd.Env = append(os.Environ(), childVar+"="+what, "PALYRA_FAULT_LOG="+log)
	if out, err := cmd.CombinedOutput(); err != nil {
		k.t.Fatalf("%s: %v: %s", what, err, out)
	}
	text, err := os.ReadFile(log)
	check(k.t, err)
	seen := map[string]int{}
	for _, name := range strings.Fields(string(text)) {
		seen[name]++
		all = append(all, fmt.Sprintf("%s:%d", name, seen[name]))
	}
	return all
}

func (k *killBench) tree() string { return fmt.Sprint(tree(k.t, k.ws)) }

// names are those in a directory of the bench.
func (k *killBench) names(dir string) (names []string) {
	all, _ := os.ReadDir(filepath.Join(k.base, dir))
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// TestKilledAtEveryPoint: a daemon that is killed at any point of keeping, holding, settling,
// dropping, undoing, redoing and adding, and then once more while it recovers, leaves the old
// tree or the new one, and what can be done next is what it looks like.
func TestKilledAtEveryPoint(t *testing.T) {
	full := os.Getenv("PALYRA_FAULTS") == "full"
	for _, c := range []struct {
		what  string
		first []string // what is done before
		check func(k *killBench, point string)
	}{
		{"keep", nil, (*killBench).afterKeep},
		{"hold", nil, (*killBench).afterHold},
		{"settle", []string{"hold"}, (*killBench).afterSettle},
		{"forget", []string{"hold"}, (*killBench).afterForget},
		{"undo", []string{"keep"}, (*killBench).afterUndo},
		{"redo", []string{"keep", "undo"}, (*killBench).afterRedo},
		{"undo", []string{"hold", "settle"}, (*killBench).afterUndo},
		{"add", nil, (*killBench).afterAdd},
	} {
		for _, elsewhere := range []bool{false, true} {
			t.Run(fmt.Sprint(c.what, c.first, elsewhere), func(t *testing.T) {
				k := newKillBench(t, elsewhere)
				prepare := func() {
					k.furnish()
					for _, first := range c.first {
						k.act(first, "")
					}
				}
				prepare()
				points := k.points(c.what)
				if len(points) == 0 {
					t.Fatal("it passes no point")
				}
				for i := 0; i < len(points); i++ {
					if !full { // a few of them
						i += rand.Intn(1 + len(points))
					}
					if i >= len(points) {
						break
					}
					point := points[i]
					prepare()
					if !k.act(c.what, point) {
						t.Fatalf("%s: it was not killed", point)
					}
					if full || rand.Intn(2) == 0 { // the next one too, if it has something to do
						k.act("recover", fmt.Sprintf("stage.step/%s:%d", []string{"lost", "kept"}[i%2], 1+rand.Intn(3)))
					}
					k.act("recover", "")
					c.check(k, point)
					if t.Failed() {
						t.Fatalf("killed at %s", point)
					}
				}
			})
		}
	}
}

// one of the trees it must be; which says which.
func (k *killBench) either(point string) (isAfter bool) {
	k.t.Helper()
	switch k.tree() {
	case k.before:
		return false
	case k.after:
		return true
	}
	k.t.Fatalf("%s: neither the old tree nor the new one:\n%s\nold\n%s\nnew\n%s", point, k.tree(), k.before, k.after)
	return false
}

func (k *killBench) afterKeep(point string) {
	k.t.Helper()
	done := k.either(point)
	if done == strings.HasPrefix(point, "stage.listed/lost") {
		k.t.Errorf("%s: kept: %v", point, done)
	}
	text, err := os.ReadFile(filepath.Join(k.base, "stages", wordPrefix+"run"))
	var word Settled
	if told := err == nil && json.Unmarshal(text, &word) == nil; told != done || (word.Kept > 0) != done || word.Lost != "" {
		k.t.Errorf("%s: kept: %v, and the word of it is %s, %v", point, done, text, err)
	}
	k.act("recorded", "")
	if left := k.names("stages"); len(left) > 0 {
		k.t.Errorf("%s: %q is left", point, left)
	}
	if slices.Contains(k.names("past"), "run") != done {
		k.t.Errorf("%s: kept %v, and remembered is %q", point, done, k.names("past"))
	}
	if done {
		k.act("undo", "")
		if k.either(point) {
			k.t.Errorf("%s: it cannot be undone", point)
		}
	}
}

func (k *killBench) afterHold(point string) {
	k.t.Helper()
	if k.either(point) {
		k.t.Fatalf("%s: nobody said that it is to be kept", point)
	}
	held := slices.Contains(k.names("stages"), heldPrefix+"run")
	if held != strings.HasPrefix(point, "stage.held/kept") {
		k.t.Fatalf("%s: held: %v", point, held)
	}
	k.act("recover", "") // once more
	if !held {
		return
	}
	if k.act("settle", ""); !k.either(point) {
		k.t.Errorf("%s: what was held cannot be kept", point)
	}
}

func (k *killBench) afterSettle(point string) {
	k.t.Helper()
	done := k.either(point)
	if k.act("settle", ""); !k.either(point) { // whoever answered asks again
		k.t.Errorf("%s: done before %v, and not kept", point, done)
	}
	if k.act("undo", ""); k.either(point) {
		k.t.Errorf("%s: it cannot be undone", point)
	}
}

func (k *killBench) afterForget(point string) {
	k.t.Helper()
	if k.act("forget", ""); k.either(point) {
		k.t.Errorf("%s: it was kept", point)
	}
	if left := k.names("stages"); len(left) > 0 {
		k.t.Errorf("%s: %q is left", point, left)
	}
}

func (k *killBench) afterUndo(point string) {
	k.t.Helper()
	undone := slices.Contains(k.names("past"), "run-undone")
	if k.either(point) == undone {
		k.t.Fatalf("%s: undone is %v by what is remembered", point, undone)
	}
	if left := k.names("stages"); len(left) > 0 {
		k.t.Errorf("%s: %q is left", point, left)
	}
	if !undone {
		k.act("undo", "")
	}
	if k.act("redo", ""); !k.either(point) {
		k.t.Errorf("%s: it cannot be redone", point)
	}
}

func (k *killBench) afterRedo(point string) {
	k.t.Helper()
	if redone := slices.Contains(k.names("past"), "run-redone"); k.either(point) != redone {
		k.t.Errorf("%s: redone is %v by what is remembered", point, redone)
	}
	if left := k.names("stages"); len(left) > 0 {
		k.t.Errorf("%s: %q is left", point, left)
	}
}

func (k *killBench) afterAdd(point string) {
	k.t.Helper()
	want := []string(nil)
	if strings.HasPrefix(point, "stage.added/kept") {
		want = []string{"run"}
	}
	if got := k.names("past"); !slices.Equal(got, want) {
		k.t.Errorf("%s: remembered is %q", point, got)
	}
	if text, err := os.ReadFile(filepath.Join(k.ws, "f")); err != nil || string(text) != "new\n" {
		k.t.Errorf("%s: %q, %v", point, text, err)
	}
}

// scriptChild does the steps that it reads, in the workspace that it is told, on the layer if
// there is one: without a program for each step there can be many scripts.
func scriptChild() {
	var s struct {
		Workspace, Stage string
		Steps            []scriptStep
	}
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if s.Stage != "" {
		opts := fmt.Sprintf("userxattr,volatile,lowerdir=%s,upperdir=%s/upper,workdir=%s/work", s.Workspace, s.Stage, s.Stage)
		err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		if err = errors.Join(err, unix.Mount("overlay", s.Workspace, "overlay", 0, opts)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := os.Chdir(s.Workspace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	unix.Umask(0o022)
	for _, step := range s.Steps {
		step.do()
	}
}
