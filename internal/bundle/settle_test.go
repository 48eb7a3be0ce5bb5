package bundle

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"palyra"
)

// A directory that somebody writes is not read in the middle of it. Time passes only while everybody rests, so that no busy
// machine has the writer rest for longer than it means to.
func TestRestlessPolicyDirIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		layPolicies(t, dir, noEcho)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			for n := 1; ctx.Err() == nil; n++ { // each time of another length
				_ = os.WriteFile(filepath.Join(dir, "more.cedar"), []byte("// "+strings.Repeat("x", n)), 0o644)
				<-time.After(dirQuiet / 3)
			}
		}()
		synctest.Wait()
		_, err := settledFiles(t.Context(), dir)
		if palyra.AsError(err).Reason != palyra.ReasonInterrupted || palyra.AsError(err).Remedy == "" {
			t.Errorf("%v", err)
		}
		stop()
		if files, err := settledFiles(t.Context(), dir); err != nil || !strings.HasPrefix(files["more.cedar"], "// ") {
			t.Errorf("%v", err)
		}
	})
}

func TestSettlingEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	dir := t.TempDir()
	layPolicies(t, dir, noEcho)
	if _, err := settledFiles(ctx, dir); palyra.AsError(err).Reason != palyra.ReasonInterrupted {
		t.Errorf("%v", err)
	}
	if _, err := settledFiles(t.Context(), filepath.Join(dir, "none")); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("%v", err)
	}
}

// What a listing must tell apart.
func TestListingsDiffer(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.cedar")
	look := func() listing {
		t.Helper()
		l, err := listed(os.DirFS(dir))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("a.cedar", "1")
	first := look()
	if !first.equal(look()) {
		t.Error("it did not change")
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	put("b.cedar", "2") // another in its place, as old and as long
	if err := os.Chtimes(filepath.Join(dir, "b.cedar"), info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if first.equal(look()) {
		t.Error("there is one more")
	}
	if err := os.Rename(filepath.Join(dir, "b.cedar"), file); err != nil {
		t.Fatal(err)
	}
	if second := look(); first.equal(second) || len(first) != len(second) {
		t.Error("there is another")
	}
	if err := os.Mkdir(filepath.Join(dir, "tests"), 0o700); err != nil {
		t.Fatal(err)
	}
	third := look()
	put("tests/a.yaml", "")
	if third.equal(look()) {
		t.Error("there is a test more")
	}
}

// layPolicies writes a policy directory.
func layPolicies(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "a.cedar"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const noEcho = `@id("no-echo") @reason("quiet") forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.echo");`

func TestEvidenceHasABound(t *testing.T) {
	files := map[string]any{}
	for i := range 1000 {
		files[strings.Repeat("a", 50)+string(rune('a'+i%26))+string(rune('a'+i/26))+".cedar"] = "x"
	}
	if _, err := abridged(palyra.Signature{Fields: map[string]any{"files": files}}); palyra.AsError(err).Reason != palyra.ReasonInputTooLarge {
		t.Error(err)
	}
}
