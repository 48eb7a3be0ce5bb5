package template

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func FuzzMark(f *testing.F) {
	f.Add([]byte("/proc/self/fd/4\x00inside\x0000000000000000ff\x00"))
	f.Add([]byte("x\x00inside\x00ff"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if m, ok := parseMark(line); ok && !strings.Contains(string(line), "\x00inside\x00"+MarkText(m)) {
			t.Errorf("%q has the mark %x", line, m)
		}
	})
}

// TestLook tells rooms' processes from others by what the kernel says of them.
func TestLook(t *testing.T) {
	proc := t.TempDir()
	make := func(pid, uid int, exe string) {
		dir := filepath.Join(proc, fmt.Sprint(pid))
		stat := fmt.Sprintf("%d (a) b) S %s 4711 0", pid, strings.Repeat("1 ", 18))
		err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(dir+"/status",
			fmt.Appendf(nil, "Name:\tx\nUid:\t%d\t%d\t%d\t%d\n", uid, uid, uid, uid), 0o644), os.WriteFile(dir+"/stat", []byte(stat), 0o644))
		if exe != "" {
			err = errors.Join(err, os.Symlink(exe, dir+"/exe"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	us := os.Geteuid()
	for pid, c := range []struct {
		uid  int
		exe  string
		want bool
	}{
		{us, "/usr/bin/bwrap", true},
		{us, "/memfd:palyra-cell (deleted)", true},
		{us, "/opt/x/bwrap (deleted)", true},
		{us, "/usr/bin/sleep", false},
		{us, "", false},
		{us + 1, "/usr/bin/bwrap", us == 0},
		{us + 1, "/usr/bin/python3", false},
	} {
		make(pid, c.uid, c.exe)
		if p, ok := look(proc, pid); ok != c.want || ok && p.start != "4711" {
			t.Errorf("%+v: %v %+v", c, ok, p)
		}
	}
	if _, ok := look(proc, 99); ok {
		t.Error("nobody is somebody")
	}
}
