package invocation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/screen"
	"palyra/internal/config"
)

func TestUnforeseenErrorsKeepTheirText(t *testing.T) {
	inv := &Invocation{}
	var out bytes.Buffer
	inv.Stderr = &out
	if code := inv.Finish(errors.New("disk on fire")); code != exit.Failure || out.String() != "palyra: disk on fire\n" {
		t.Errorf("%d %q", code, out.String())
	}
	out.Reset()
	if code := inv.Finish(exit.Error{Code: 3}); code != 3 || out.String() != "" {
		t.Errorf("%d %q", code, out.String())
	}
}

func TestQuiet(t *testing.T) {
	var out bytes.Buffer
	inv := &Invocation{Quiet: true}
	inv.Stderr = &out
	inv.Say("hello")
	inv.moreHint("cursor")
	if out.Len() != 0 {
		t.Errorf("%q", out.String())
	}
	inv.Quiet = false
	inv.moreHint("a b")
	if out.String() != "palyra: there are more: --cursor \"a b\"\n" {
		t.Errorf("%q", out.String())
	}
}

func TestColours(t *testing.T) {
	inv := &Invocation{}
	if inv.Colours(&bytes.Buffer{}) {
		t.Error("a buffer got colours")
	}
	if screen.Style(false).Alarm("x") != "x" || screen.Style(true).Strong("") != "" || screen.Style(true).Calm("x") == "x" {
		t.Error("style")
	}
}

func TestAgentToken(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	inv := &Invocation{}
	if s, err := inv.AgentToken(); err != nil || !s.Empty() {
		t.Errorf("without a variable: %v", err)
	}
	inv.Env = []string{TokenVariable + "=" + file}
	write("tok\n", 0o600)
	s, err := inv.AgentToken()
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Use(func(b []byte) error {
		if string(b) != "tok" {
			t.Errorf("got %q", b)
		}
		return nil
	})
	for name, spoil := range map[string]func(){
		"readable by others": func() { write("tok", 0o644) },
		"empty":              func() { write("\n", 0o600) },
		"too large":          func() { write(strings.Repeat("x", MaxToken+1), 0o600) },
		"gone":               func() { _ = os.Remove(file) },
	} {
		spoil()
		if _, err := inv.AgentToken(); exit.Of(err) != exit.Unauthorised {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := inv.AgentToken(); (name == "readable by others") != strings.Contains(palyra.AsError(err).Remedy, "chmod 600 "+file) {
			t.Errorf("%s: the remedy is %q", name, palyra.AsError(err).Remedy)
		}
	}
}

func TestReadInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(file, []byte(`{"a":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	inv := &Invocation{Stdin: strings.NewReader("{}")}
	for arg, want := range map[string]string{`{"b":2}`: `{"b":2}`, "@" + file: `{"a":1}`, "-": "{}"} {
		if got, err := inv.ReadInput(arg, 7); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", arg, got, err)
		}
	}
	if _, err := inv.ReadInput("@"+file, 6); palyra.AsError(err).Reason != palyra.ReasonInputTooLarge {
		t.Errorf("too large: %v", err)
	}
	if _, err := inv.ReadInput("@"+file+"x", 6); palyra.AsError(err).Reason != palyra.ReasonFileNotFound {
		t.Errorf("missing: %v", err)
	}
}

func TestWriteTo(t *testing.T) {
	var out, errs bytes.Buffer
	inv := &Invocation{Stdout: &out, Stderr: &errs}
	file := filepath.Join(t.TempDir(), "out")
	put := func(_ context.Context, w io.Writer) error { _, err := w.Write([]byte("data")); return err }
	if err := inv.WriteTo(t.Context(), file, put); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(file); err != nil || string(raw) != "data" || out.Len() != 0 {
		t.Errorf("%s %v %s", raw, err, out.String())
	}
	broken := func(_ context.Context, w io.Writer) error { _, _ = w.Write([]byte("half")); return errors.New("broke") }
	if err := inv.WriteTo(t.Context(), file, broken); err == nil {
		t.Error("no error")
	}
	if raw, _ := os.ReadFile(file); string(raw) != "data" {
		t.Errorf("a broken export replaced the file: %s", raw)
	}
	if err := inv.WriteTo(t.Context(), "", put); err != nil || out.String() != "data" {
		t.Errorf("%v %s", err, out.String())
	}
	if err := inv.WriteTo(t.Context(), filepath.Join(file, "x"), put); err == nil {
		t.Error("wrote below a file")
	}
}

func TestConfigIsLoadedOnce(t *testing.T) {
	inv := &Invocation{Home: t.TempDir()}
	inv.Env = []string{}
	c, err := inv.Config()
	if err != nil {
		t.Fatal(err)
	}
	again, err := inv.Config()
	if err != nil || again != c {
		t.Error("loaded twice")
	}
	if c.Paths.Home != inv.Home || c.ToolCall != config.Default().ToolCall {
		t.Errorf("%+v", c)
	}
}

// What is said while a command has the terminal starts its lines at the left.
func TestSayInARawTerminal(t *testing.T) {
	var out bytes.Buffer
	raw := false
	inv := &Invocation{Stderr: &out, RawNow: func() bool { return raw }}
	inv.Say("one %d", 1)
	raw = true
	inv.Say("two")
	inv.Quiet = true
	inv.Say("not said")
	inv.SayAlways("three")
	if out.String() != "one 1\ntwo\r\nthree\r\n" {
		t.Errorf("%q", out.String())
	}
}

func TestUnproven(t *testing.T) {
	if exit.Unproven(nil) != nil {
		t.Error("nothing became an error")
	}
	if err := exit.Unproven(exit.Usagef("x")); exit.Of(err) != exit.Usage {
		t.Errorf("%v", err)
	}
	inv := &Invocation{}
	var out bytes.Buffer
	inv.Stderr = &out
	e := palyra.Errorf(palyra.Denied, palyra.ReasonBadSignature, "bad").WithRemedy("fetch it again")
	if code := inv.Finish(exit.Unproven(e)); code != exit.Failure || out.String() != "palyra: bad\n  remedy: fetch it again\n" {
		t.Errorf("%d %q", code, out.String())
	}
}

func TestNoDaemonHasACodeOfItsOwn(t *testing.T) {
	for _, reason := range []palyra.Reason{client.ReasonNoDaemon, client.ReasonOutOfReach, client.ReasonConnectionLost} {
		err := palyra.Errorf(palyra.Unavailable, reason, "x")
		if code := (&Invocation{Stderr: io.Discard}).Finish(fmt.Errorf("more: %w", err)); code != exit.NoDaemon {
			t.Errorf("%s: %d", reason, code)
		}
		if code := (&Invocation{Stderr: io.Discard}).Finish(exit.Unproven(err)); code != exit.Failure {
			t.Errorf("%s: an error with a code of its own got %d", reason, code)
		}
	}
}
