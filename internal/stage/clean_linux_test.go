package stage

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
)

// Two names that a run gives one file are two files in the workspace: who writes to one leaves the other as it is.
func TestHardLinksAreBroken(t *testing.T) {
	for _, held := range []bool{false, true} {
		b := newBench(t)
		b.write("old", "old\n")
		const script = "echo new > a; ln a b; mkdir d; ln a d/c; ln old was; echo x > alone; chmod 200 a"
		if held {
			b.holds("call", script, nil)
			e, err := b.all.Settle(t.Context(), "call", RulingKeep, nil, nil)
			check(t, err)
			if e.Kept == 0 || e.Lost != "" {
				t.Fatalf("%+v", e)
			}
		} else {
			g := b.stage()
			b.run(g, script)
			b.keep(g)
		}
		for name, text := range map[string]string{"a": "new\n", "b": "new\n", "d/c": "new\n", "old": "old\n", "was": "old\n", "alone": "x\n"} {
			path := filepath.Join(b.ws, name)
			var st unix.Stat_t
			check(t, unix.Lstat(path, &st))
			if mode := st.Mode & 0o777; mode == 0o200 != (name == "a" || name == "b" || name == "d/c") || st.Nlink != 1 {
				t.Errorf("held %v: %s has %d names and mode %o", held, name, st.Nlink, mode)
			}
			check(t, os.Chmod(path, 0o600))
			if got, err := os.ReadFile(path); err != nil || string(got) != text {
				t.Errorf("held %v: %s is %q, %v", held, name, got, err)
			}
		}
	}
}

// A file with several names that has holes is not copied beyond what a run may leave.
func TestHardLinksOfHolesAreBounded(t *testing.T) {
	b := newBench(t)
	b.all.limits.Bytes = 1 << 20
	g := b.stage()
	b.run(g, "truncate -s 1G a; ln a b")
	_, err := g.Keep(t.Context(), nil, nil)
	if over := (*LimitError)(nil); !errors.As(err, &over) || over.Of != "bytes" {
		t.Errorf("%v", err)
	}
	g.Drop()
}

// accessList is one by which a user may do all.
func accessList(user uint32) []byte {
	out := binary.LittleEndian.AppendUint32(nil, 2)
	const none = ^uint32(0)
	for _, e := range [][3]uint32{{0x01, 6, none}, {0x02, 7, user}, {0x04, 4, none}, {0x10, 7, none}, {0x20, 4, none}} {
		out = binary.LittleEndian.AppendUint16(out, uint16(e[0]))
		out = binary.LittleEndian.AppendUint16(out, uint16(e[1]))
		out = binary.LittleEndian.AppendUint32(out, e[2])
	}
	return out
}

// Attributes and access lists that a run sets are taken off and told; those that the workspace's file has, or gives to
// new ones, stay.
func TestAttributesOfARunAreNotKept(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"f", "given/x"} {
		b.write(name, "old\n")
	}
	set := func(path, name string, value []byte) {
		t.Helper()
		if err := unix.Lsetxattr(path, name, value, 0); err != nil {
			t.Skipf("UNPROVEN HERE: the file system takes no %s: %v", name, err)
		}
	}
	mine, evil := accessList(1234), accessList(65534)
	set(filepath.Join(b.ws, "f"), "user.mine", []byte("x"))
	set(filepath.Join(b.ws, "f"), beneath.AccessList, mine)
	set(filepath.Join(b.ws, "given"), beneath.DefaultList, mine)
	g := b.stage()
	b.run(g, "echo more >> f; echo new > n; echo new > given/n; touch given/x")
	upper := filepath.Join(g.Path(), Upper)
	for _, name := range []string{"f", "n"} {
		set(filepath.Join(upper, name), "user.evil", []byte("x"))
	}
	set(filepath.Join(upper, "n"), beneath.AccessList, evil)
	set(filepath.Join(upper, "given/x"), beneath.AccessList, evil)
	e, err := g.Keep(t.Context(), nil, nil)
	check(t, err)
	g.Drop()
	for name, want := range map[string]string{
		"f": "system.posix_acl_access user.mine", "n": "", "given/n": "system.posix_acl_access", "given/x": "",
	} {
		all, err := beneath.Attributes(filepath.Join(b.ws, name))
		check(t, err)
		if got := strings.Join(all, " "); got != want && got != "user.mine system.posix_acl_access" {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	if told := strings.Join(e.Refused, "; "); told != "f: extended attributes; given/x: extended attributes; n: extended attributes" {
		t.Errorf("told is %q", told)
	}
}
