package seal

import (
	"os"
	"slices"
	"testing"

	"palyra"
)

// No link comes to lead where runs keep what nobody looks through: not by a name that
// is made later, by /proc, by another name of the directory, nor in node_modules. The
// names are bytes.
func TestLinksToWhatRunsKeep(t *testing.T) {
	for _, crash := range []bool{false, true} {
		b := newBox(t)
		closed, free := b.out+"/kept\xff", b.out+"/free"
		for _, dir := range []string{closed, free, b.quarantine} {
			must(t, os.MkdirAll(dir, 0o700))
		}
		must(t, os.Symlink(closed, b.out+"/alias"))
		b.file("old -> "+b.out+"/soon", "dead -> "+b.out+"/nothing", "p -> /proc/self/status", "dir/sub/x", "node_modules/a/x",
			"node_modules/out -> "+free)
		s, err := Scan(t.Context(), b.ws, Default, Limits{Closed: []string{closed, b.quarantine}})
		must(t, err)
		if crash {
			doc, err := s.Record()
			must(t, err)
			s, err = Load(doc)
			must(t, err)
		}
		must(t, os.Symlink(closed, b.out+"/soon")) // what the old one leads to comes later
		gone := []string{
			"old", "later", "root", "cwd", "fd", "nowhere", "alias", "up\xff", "round", "node_modules/a/deep", "node_modules/p", "pens",
			"dir/sub/out", "own",
		}
		b.file("later -> "+closed+"/r1", "root -> /proc/self/root"+closed+"/r1", "cwd -> /proc/self/cwd/../x", "fd -> /dev/fd/7/x",
			"nowhere -> /no/such/place")
		b.file("alias -> "+b.out+"/alias/r", "up\xff -> ../out/kept\xff/r", "round -> dir/../../out/kept\xff",
			"node_modules/a/deep -> ../../../out/alias", "node_modules/p -> /proc/self/root/usr")
		b.file("pens -> "+b.quarantine+"/"+string(testCall)+"/000001", "dir/sub/out -> "+b.in("../out/kept\xff"), "own -> .palyra/quarantine/x")
		b.file("bin -> /usr/bin", "back -> "+b.out+"/../ws/dir", "in -> dir/none", "node_modules/free -> "+free)
		want := append(gone, stays(palyra.RemnantLink, "bin"), stays(palyra.RemnantLink, "node_modules/free"))
		slices.Sort(want)
		if made := b.sweep(s); !slices.Equal(made, want) {
			t.Errorf("crash %v: made %q\nwant %q", crash, made, want)
		}
		for _, p := range []string{"dead", "p", "bin", "back", "in", "node_modules/out", "node_modules/free"} {
			if !b.exists(p) {
				t.Errorf("%s is gone", p)
			}
		}
		if made := b.sweep(s); len(made) > 0 {
			t.Errorf("a second sweep finds %q", made)
		}
		b.intact()
	}
}

// A link that leads outside and in again is judged by where it ends.
func TestLinksThatComeBack(t *testing.T) {
	b := newBox(t)
	b.file("node_modules/app/x", "dir/x")
	s := b.scan()
	must(t, os.Symlink(b.ws, b.out+"/ws"))
	b.file("node_modules/app/.vscode/tasks.json", "app -> "+b.out+"/ws/node_modules/app", "dir/a -> "+b.in("dir/../node_modules/app"),
		"d -> "+b.out+"/ws/dir")
	if made := b.sweep(s); !slices.Equal(made, []string{"app", "dir/a"}) {
		t.Errorf("made %q", made)
	}
}

// A closed directory that is empty or relative would close nothing.
func TestScanRefusesAClosedDirectoryThatIsNone(t *testing.T) {
	for _, dir := range []string{"", "caches"} {
		if _, err := Scan(t.Context(), t.TempDir(), Default, Limits{Closed: []string{dir}}); err == nil {
			t.Errorf("%q is accepted", dir)
		}
	}
}
