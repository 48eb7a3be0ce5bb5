package cage

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What is opened and changed of what a cage names is noted, and what is not is not.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"data/in.csv", "other/x", "out/old", "top.txt", "deep/er/y"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "program")
	text, err := os.ReadFile("/bin/true")
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	for _, at := range []*os.File{nil, root} {
		c := &Cage{Read: []string{dir}, Write: []string{dir + "/out"}, Programs: []string{program, "/bin/false"}}
		w := Observe(c, dir, at, nil)
		if out, err := exec.Command("/bin/sh", "-c", "cd '"+dir+"'; ./program; cat data/in.csv top.txt deep/er/y; echo x > out/new; rm out/new").
			CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		got, known := w.End()
		got = slices.DeleteFunc(got, func(s string) bool { return s == "read:out" || s == "write:program" || s == "read:program" })
		if want := "programs:" + program + " read:data read:deep/er read:top.txt write:out"; strings.Join(got, " ") != want || !known {
			t.Errorf("%q %v, want %q", got, known, want)
		}
	}
	if _, known := Observe(&Cage{Read: []string{dir + "/none"}}, dir, nil, nil).End(); !known {
		t.Error("what is not there is not known")
	}
}

// Who opens a file that is covered in the room is not seen: it counts where the cage shows it, and nowhere else.
func TestCoveredFilesCount(t *testing.T) {
	dir := t.TempDir()
	c := &Cage{Read: []string{dir + "/conf", dir + "/.env"}, Write: []string{dir + "/out"}}
	w := Observe(c, dir, nil, []string{dir + "/.env", dir + "/conf/a/.env.test", dir + "/other/.env", "/elsewhere/.env"})
	got, known := w.End()
	if want := "read:.env read:conf/a"; strings.Join(got, " ") != want || !known {
		t.Errorf("%q %v, want %q", got, known, want)
	}
}
