package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A directory that its owner had shut, or half shut, and that a run removed is put back by undo with its mode and all
// that was in it, and gone again by redo; on one file system and across two.
func TestShutDirectoriesAreUndone(t *testing.T) {
	for where, put := range map[string]func(*bench){"one file system": (*bench).near, "two file systems": (*bench).elsewhere} {
		for _, mode := range []os.FileMode{0, 0o100, 0o200, 0o300, 0o400, 0o500, 0o600} {
			for _, full := range []bool{false, true} {
				for _, script := range []string{"chmod -R 700 d; rm -rf d", "chmod -R 700 d; rm -rf d; echo x > d"} {
					t.Run(fmt.Sprintf("%s %o %v %s", where, mode, full, script), func(t *testing.T) { shutDirectory(t, put, mode, full, script) })
				}
			}
		}
	}
}

func shutDirectory(t *testing.T, put func(*bench), mode os.FileMode, full bool, script string) {
	b := newBench(t)
	put(b)
	p := b.past()
	dir := filepath.Join(b.ws, "d")
	check(t, os.Mkdir(dir, 0o755))
	if full {
		b.write("d/sub/f", "old\n")
		b.write("d/g", "old\n")
		check(t, os.Chmod(filepath.Join(dir, "sub"), mode))
	}
	check(t, os.Chmod(dir, mode))
	t.Cleanup(func() { shell(t, b.ws, "chmod -R 700 . 2> /dev/null; :") })
	before := fmt.Sprint(tree(t, b.ws))
	g := b.stage()
	b.run(g, script)
	b.remembered(g, p, "run")
	after := fmt.Sprint(tree(t, b.ws))
	if after == before {
		t.Fatal("nothing was removed")
	}
	b.revert(p, "run", "undo")
	if now := fmt.Sprint(tree(t, b.ws)); now != before {
		t.Errorf("undone: %s, was %s", now, before)
	}
	b.revert(p, "undo", "redo")
	if now := fmt.Sprint(tree(t, b.ws)); now != after {
		t.Errorf("redone: %s, was %s", now, after)
	}
}
