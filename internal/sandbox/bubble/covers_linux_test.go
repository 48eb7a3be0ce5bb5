package bubble

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/celltest"
)

// coversOf are covers of files in a site's workspace, all with one text.
func (s *site) coversOf(text string, rel ...string) (out []sandbox.Cover) {
	for _, r := range rel {
		out = append(out, sandbox.Cover{
			Path: filepath.Join(s.workspace, r), Below: s.workspace, File: celltest.Sealed(s.t, []byte(text)),
		})
	}
	return out
}

// TestBackendCovers: a run finds the files of its own where they are laid, in a room that was built for it and in a warm one,
// can change neither them nor what leads to them, and the workspace keeps its own.
func TestBackendCovers(t *testing.T) {
	const raw = "odd/\xff\x01name"
	const attack = `cat top deep/er/file "$(printf 'odd/\377\001name')" /etc/nsswitch.conf
{ echo x > top; echo x >> deep/er/file; rm -f top; mv top away; ln top twin; mv deep moved; mv deep/er deep/other; chmod 600 top
  cp /bin/true mine; mv mine top; umount top; } 2>&1 | wc -l
cat top deep/er/file; ls; test -x top || echo inert`
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		for _, staged := range []bool{false, true} {
			s := newSite(t, who)
			s.staged = staged
			s.dir("deep/er")
			s.dir("odd")
			for _, rel := range []string{"top", "deep/er/file", raw} {
				s.file(rel, "own "+rel+"\n")
			}
			for range 3 { // the later ones are warm
				j := s.job("/bin/sh", "-c", attack)
				j.Covers = append(s.coversOf("laid over\n", "top", "deep/er/file", raw), sandbox.Cover{
					Path: "/etc/nsswitch.conf", File: celltest.Sealed(t, []byte("of the system\n")),
				})
				files := j.Covers
				runJob(t, b, j)
				got := s.printed()
				want := strings.Repeat("laid over\n", 3) + "of the system\n"
				if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "laid over\nlaid over\ndeep\nmine\nodd\ntop\ninert") ||
					!strings.HasPrefix(strings.TrimPrefix(got, want), "10\n") {
					t.Errorf("staged %v: %s", staged, got)
				}
				for _, c := range files {
					if c.File.Close() == nil {
						t.Errorf("%s is still open", c.Path)
					}
				}
				for _, rel := range []string{"top", "deep/er/file", raw} {
					if b, err := os.ReadFile(filepath.Join(s.workspace, rel)); string(b) != "own "+rel+"\n" {
						t.Errorf("staged %v: %q is %q, %v", staged, rel, b, err)
					}
				}
				_ = os.Remove(filepath.Join(s.workspace, "mine"))
			}
			if _, out := s.script(b, "cat top"); out != "own top" {
				t.Errorf("another run finds %q", out)
			}
		}
	})
}

// TestBackendCannotCover: without one of its covers nothing runs, and their files are closed.
func TestBackendCannotCover(t *testing.T) {
	s := newSite(t, celltest.Residents()[0])
	s.dir("dir")
	s.file("file", "")
	for name, to := range map[string]string{"link": "file", "way": "dir"} {
		if err := os.Symlink(to, filepath.Join(s.workspace, name)); err != nil {
			t.Fatal(err)
		}
	}
	b := openBackend(t, configOf(t))
	at := func(rel string) sandbox.Cover { return s.coversOf("x", rel)[0] }
	relative, outside, open := at("file"), at("file"), at("file")
	relative.Path, outside.Below, open.File = "file", filepath.Join(s.workspace, "dir"), nil
	for name, c := range map[string]sandbox.Cover{
		"missing": at("missing"), "a directory": at("dir"), "a link": at("link"), "behind a link": at("way/x"),
		"relative": relative, "not below": outside, "no file": open,
	} {
		j := s.job("/bin/true")
		j.Covers = []sandbox.Cover{at("file"), c}
		if _, err := b.Start(t.Context(), j); err == nil {
			t.Errorf("%s: it ran", name)
		}
		for _, c := range j.Covers {
			if c.File != nil && c.File.Close() == nil {
				t.Errorf("%s: a file is still open", name)
			}
		}
	}
}
