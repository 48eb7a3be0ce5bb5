package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// treeOf is all that is in a directory: kinds, modes, targets and content.
func treeOf(t testing.TB, top string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := os.Lstat(path)
		if err != nil {
			return err
		}
		var content []byte
		switch fi.Mode().Type() {
		case 0:
			content, err = os.ReadFile(path)
		case fs.ModeSymlink:
			var target string
			target, err = os.Readlink(path)
			content = []byte(target)
		}
		all = append(all, fmt.Sprintf("%q %s %q", strings.TrimPrefix(path, top), fi.Mode(), content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// changing is a run with every kind of step in it: files replaced, made and removed,
// trees removed and replaced, links, modes.
const changing = `echo run >> f; rm gone; rm -r tree; echo now a file > tree; rm -r d; mkdir d; echo run > d/y
mkdir -p new/deep; echo run > new/deep/x; chmod 500 new/deep; ln -s f link; chmod 700 k`

// furnishes makes a workspace, the same each time.
func (d *daemon) furnishes() {
	d.t.Helper()
	cmd := exec.Command("sh", "-c", "chmod -R u+rwx . && find . -mindepth 1 -delete && mkdir -p d k tree/a/b && echo old > f && echo "+
		"old > gone && echo old > d/x && echo old > tree/a/b/c && echo old > k/x && chmod 755 k")
	cmd.Dir = d.work
	if out, err := cmd.CombinedOutput(); err != nil {
		d.t.Fatalf("%v: %s", err, out)
	}
	d.put("s.sh", changing)
	if err := filepath.WalkDir(d.work, func(path string, _ fs.DirEntry, err error) error { d.give(path); return err }); err != nil {
		d.t.Fatal(err)
	}
}

// noWords says that nothing is left of what became of changes, once that is on record.
func (d *daemon) noWords() {
	d.t.Helper()
	for _, left := range []string{"settled.*", "held.*"} {
		if all, err := filepath.Glob(d.cells + "-stages/" + left); err != nil || len(all) > 0 {
			d.t.Errorf("%q is left, %v", all, err)
		}
	}
}

// A daemon that is killed while a run's changes become the workspace's, or before it is on record that they did: after the
// next start all of them are there, or none where nothing had begun, never half of
// one; nothing lies about, and the call has ended with an outcome that says which.
func TestKilledWhileChangesAreKept(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(unlimited...)
	d.inWorkspace()
	d.furnishes()
	before := treeOf(t, d.work)
	if out := d.willing(d.inRoom(nil, "sh", "s.sh")); out.Effects != palyra.EffectsKept {
		t.Fatalf("nothing is staged here: %+v", out)
	}
	after := treeOf(t, d.work)
	d.noWords()
	d.stop()
	for _, c := range []struct {
		point string
		again string // where the next daemon is killed too
	}{
		{point: "call.settling/lost"},
		{point: "call.settling/kept"},
		{point: "stage.listed/lost"},
		{point: "stage.listed/kept"},
		{point: "stage.step/kept:1"},
		{point: "stage.aside/kept:2", again: "stage.step/kept:3"},
		{point: "stage.exchanged/kept"},
		{point: "stage.step/lost:9", again: "stage.step/kept:1"},
		{point: "stage.kept/lost"},
		{point: "stage.archived/lost", again: "stage.archived/lost"},
		{point: "stage.archived/kept"},
		{point: "stage.kept/kept"},
		{point: "call.finished/lost", again: "call.unknown/lost"},
		{point: "call.finished/lost", again: "call.unknown/kept"},
	} {
		t.Run(strings.ReplaceAll(c.point, "/", "_"), func(t *testing.T) {
			d.furnishes()
			d.mustStart(append(unlimited, "PALYRA_FAULT="+c.point)...)
			a, call, ch, err := question(t.Context(), d.client(client.AgentDoor), d.client(client.OperatorDoor), d.inRoom(nil, "sh", "s.sh"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.client(client.OperatorDoor).Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
				t.Fatal(err)
			}
			if end := <-ch; end.err == nil {
				t.Fatalf("it was not killed: %+v", end.out)
			}
			<-d.done
			if c.again != "" && d.start(append(unlimited, "PALYRA_FAULT="+c.again)...) {
				t.Fatal("the next daemon was not killed")
			}
			d.mustStart(unlimited...)
			want, became := after, palyra.EffectsKept
			if strings.HasPrefix(c.point, "call.settling/") || c.point == "stage.listed/lost" {
				want, became = before, palyra.EffectsDropped
			}
			if got := treeOf(t, d.work); got != want {
				t.Errorf("the workspace is\n%s\nwant\n%s\n%s", got, want, d.log)
			}
			if left, _ := filepath.Glob(d.cells + "-stages/*"); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
			got, err := d.client(client.OperatorDoor).GetCall(t.Context(), call)
			if err != nil || got.State != palyra.Unknown || got.Outcome.Effects != became {
				t.Errorf("the call is %s, %+v, %v", got.State, got.Outcome, err)
			}
			if c.point != "call.settling/lost" && got.Outcome.Changes == nil {
				t.Errorf("what it changed is not in %+v", got.Outcome)
			}
			d.verify()
			d.stop()
		})
	}
}
