package jobobject

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// variables reads a block as the system does.
func variables(t testing.TB, b []uint16) []string {
	t.Helper()
	if len(b) < 2 || b[len(b)-1] != 0 || b[len(b)-2] != 0 {
		t.Fatalf("it does not end in two zeros: %v", b[max(0, len(b)-4):])
	}
	var out []string
	for b = b[:len(b)-1]; len(b) > 0; {
		n := slices.Index(b, 0)
		if n == 0 {
			if len(b) > 1 {
				t.Fatal("it ends before its end")
			}
			return out
		}
		out, b = append(out, string(utf16.Decode(b[:n]))), b[n+1:]
	}
	return out
}

func TestBlock(t *testing.T) {
	b, err := block([]string{"b=2", "A=1=x", "c=", "é=😀"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := variables(t, b), []string{"A=1=x", "b=2", "c=", "é=😀"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if b, err := block(nil); err != nil || !slices.Equal(b, []uint16{0, 0}) {
		t.Errorf("%v, %v", b, err)
	}
	for name, env := range map[string][]string{
		"no name": {"=x"}, "a drive's": {`=C:=C:\x`}, "no value": {"x"}, "zero": {"a=b\x00c=d"}, "no text": {"a=\xff"},
		"twice": {"PATH=1", "Path=2"}, "long": {"a=" + strings.Repeat("x", maxVariable)},
	} {
		if _, err := block(env); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// No value makes a variable of its own.
func FuzzBlock(f *testing.F) {
	f.Add("A", "1", "B", "2")
	f.Add("Path", "x\x00EVIL=1", "PATH", "")
	f.Add("=C:", "x", "\xff", "é")
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2 string) {
		env := []string{n1 + "=" + v1, n2 + "=" + v2}
		b, err := block(env)
		if err != nil {
			return
		}
		got := variables(t, b)
		slices.Sort(got)
		slices.Sort(env)
		if !slices.Equal(got, env) || !utf8.ValidString(strings.Join(env, "")) {
			t.Errorf("%q became %q", env, got)
		}
	})
}

func TestEnvironmentIsTheRunsOwn(t *testing.T) {
	s := system{`C:\Windows`}
	env := s.environment([]string{"PATH=/usr/bin", "HOME=/x", "TMPDIR=/tmp", "LANG=C.UTF-8", "temp=elsewhere", "GOFLAGS=-x"}, `C:\p\run`)
	slices.Sort(env)
	want := []string{
		`APPDATA=C:\p\run\home\AppData\Roaming`, `ComSpec=C:\Windows\System32\cmd.exe`, `GOFLAGS=-x`, `HOME=C:\p\run\home`, `LANG=C.UTF-8`,
		`LOCALAPPDATA=C:\p\run\home\AppData\Local`, `OS=Windows_NT`, `PATH=C:\Windows\System32;C:\Windows;C:\Windows\System32\Wbem`,
		`PATHEXT=.COM;.EXE`,
		`SystemDrive=C:`, `SystemRoot=C:\Windows`, `TEMP=C:\p\run\tmp`, `TMP=C:\p\run\tmp`, `TMPDIR=C:\p\run\tmp`, `USERPROFILE=C:\p\run\home`,
		`windir=C:\Windows`,
	}
	if !slices.Equal(env, want) {
		t.Errorf("got\n%s", strings.Join(env, "\n"))
	}
	if _, err := block(env); err != nil {
		t.Error(err)
	}
}
