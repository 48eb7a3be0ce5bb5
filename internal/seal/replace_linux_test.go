package seal

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What stands in the place of a sealed path after a run may be the run's,
// whoever put it there first.
func TestReplaced(t *testing.T) {
	for _, test := range []struct {
		name   string
		during func(*box)
		want   string
		back   bool
	}{
		{"a file", func(b *box) { b.file("t"); must(b.t, os.Rename(b.in("t"), b.in(".git/config"))) }, ".git/config", true},
		{"a link", func(b *box) { must(b.t, os.Remove(b.in(".git/config"))); b.file(".git/config -> " + b.out) }, ".git/config", true},
		{"a directory", func(b *box) { must(b.t, os.Remove(b.in(".git/config"))); b.file(".git/config/x") }, ".git/config", true},
		{"a pipe", func(b *box) {
			must(b.t, os.Remove(b.in(".git/config")))
			must(b.t, unix.Mkfifo(b.in(".git/config"), 0o600))
		}, ".git/config", true},
		{"the same text", func(b *box) {
			must(b.t, os.WriteFile(b.in("t"), []byte(".git/config"), 0o600))
			must(b.t, os.Rename(b.in("t"), b.in(".git/config")))
		}, "/changed: .git/config", true},
		{"the same text, executable", func(b *box) {
			must(b.t, os.WriteFile(b.in("t"), []byte(".git/config"), 0o700))
			must(b.t, os.Rename(b.in("t"), b.in(".git/config")))
		}, ".git/config", true},
		{"gone", func(b *box) { must(b.t, os.Remove(b.in(".git/config"))) }, "/changed: .git/config", false},
		{"hooks", func(b *box) {
			must(b.t, os.Rename(b.in(".git/hooks"), b.in("old")))
			b.file(".git/hooks/evil")
		}, ".git/hooks /changed: .git/hooks/x", true},
		{"the repository", func(b *box) {
			must(b.t, os.Rename(b.in(".git"), b.in("old")))
			b.file(".git/config", ".git/hooks/x")
		}, ".git /changed: .git/config /changed: .git/hooks/x", false},
	} {
		for _, crash := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				b := newBox(t)
				b.file(".git/config", ".git/hooks/x")
				must(t, os.Chmod(b.in(".git/config"), 0o640))
				giveAway(t, b)
				s := b.scan()
				if crash {
					doc, err := s.Record()
					must(t, err)
					s, err = Load(doc)
					must(t, err)
				}
				test.during(b)
				if made := strings.Join(b.sweep(s), " "); made != test.want {
					t.Fatalf("made %q, want %q", made, test.want)
				}
				b.asBefore(test.back)
				if again := b.sweep(s); again != nil {
					t.Errorf("a second sweep: %q", again)
				}
				if stale, err := s.Stale(t.Context()); err != nil || stale {
					t.Errorf("stale: %v, %v", stale, err)
				}
			})
		}
	}
}

// What took the place of a sealed file has no mount: what is written to it later, in place, does not stay either, also
// when its times are those of before.
func TestReplacedThenWritten(t *testing.T) {
	for name, text := range map[string]string{"another text": "evil", "the same text": ".git/config"} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.file(".git/config", ".git/hooks/x")
			giveAway(t, b)
			s := b.scan()
			must(t, os.WriteFile(b.in("t"), []byte(text), 0o600))
			must(t, os.Rename(b.in("t"), b.in(".git/config")))
			b.sweep(s)
			for range 2 {
				var st unix.Stat_t
				must(t, unix.Lstat(b.in(".git/config"), &st))
				must(t, os.WriteFile(b.in(".git/config"), []byte(".git/CONFIG"), 0o600))
				must(t, unix.UtimesNanoAt(unix.AT_FDCWD, b.in(".git/config"), []unix.Timespec{st.Atim, st.Mtim}, 0))
				if made := b.sweep(s); !slices.Equal(made, []string{".git/config"}) {
					t.Errorf("made %q", made)
				}
				b.asBefore(true)
			}
			if again := b.sweep(s); again != nil {
				t.Errorf("one more sweep: %q", again)
			}
		})
	}
}

// asBefore fails unless .git/config is as it was made, or not there.
func (b *box) asBefore(want bool) {
	b.t.Helper()
	var st unix.Stat_t
	err := unix.Lstat(b.in(".git/config"), &st)
	if !want {
		if err == nil {
			b.t.Error(".git/config is there")
		}
		return
	}
	must(b.t, err)
	text, err := os.ReadFile(b.in(".git/config"))
	if err != nil || string(text) != ".git/config" || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o111 != 0 {
		b.t.Errorf("%q, mode %o, %v", text, st.Mode, err)
	}
	if os.Geteuid() == 0 && st.Uid != testUID && st.Uid != 0 {
		b.t.Errorf("uid %d", st.Uid)
	}
}
