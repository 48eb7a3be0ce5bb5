//go:build unix

package files

import (
	"encoding/base64"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"palyra"
)

func TestRead(t *testing.T) {
	each(t, func(b *box) {
		b.put("a.txt", "hello\n<world>\n", 0o644)
		got := b.must("read", args{"path": "a.txt"})
		if got["content"] != "hello\n<world>\n" || got["eof"] != true || got["size"] != 14.0 || got["encoding"] != "text" ||
			got["path"] != "a.txt" {
			b.Errorf("%v", got)
		}
		got = b.must("read", args{"path": b.path("a.txt"), "encoding": "base64"})
		if got["content"] != base64.StdEncoding.EncodeToString([]byte("hello\n<world>\n")) || got["path"] != "a.txt" {
			b.Errorf("%v", got)
		}
		b.put("empty", "", 0o644)
		if got := b.must("read", args{"path": "empty"}); got["content"] != "" || got["eof"] != true || got["size"] != 0.0 {
			b.Errorf("%v", got)
		}
		if got := b.must("read", args{"path": "a.txt", "offset": 100}); got["content"] != "" || got["eof"] != true || got["size"] != 14.0 {
			b.Errorf("past the end: %v", got)
		}
	})
}

// Whatever the page size, the pages put together are the file.
func TestReadInPages(t *testing.T) {
	each(t, func(b *box) {
		whole := strings.Repeat("aé日😀\x01", 200)
		b.put("f", whole, 0o600)
		for _, limit := range []int{4, 5, 7, 100, 1000, 1 << 20} {
			for _, most := range []int64{300, 1 << 20} {
				b.most = most
				var all strings.Builder
				offset := 0.0
				for eof := false; !eof; {
					got := b.must("read", args{"path": "f", "offset": offset, "limit": limit})
					all.WriteString(got["content"].(string))
					if got["next_offset"].(float64) <= offset && got["eof"] != true {
						b.Fatalf("limit %d: no progress at %v", limit, offset)
					}
					offset, eof = got["next_offset"].(float64), got["eof"].(bool)
				}
				if all.String() != whole {
					b.Errorf("limit %d, most %d: %d of %d bytes", limit, most, all.Len(), len(whole))
				}
			}
		}
	})
}

func TestReadRefusals(t *testing.T) {
	each(t, func(b *box) {
		b.put("bin", "ab\xff\xfe", 0o644)
		b.put("d/é", "é", 0o644)
		b.ok(syscall.Mkfifo(b.path("fifo"), 0o666))
		b.own(b.path("fifo"))
		l, err := net.Listen("unix", b.path("sock"))
		b.ok(err)
		defer func() { _ = l.Close() }()
		for _, c := range []struct {
			path string
			want palyra.Reason
		}{
			{"bin", palyra.ReasonMalformedInput},
			{"none", palyra.ReasonFileNotFound},
			{"none/x", palyra.ReasonFileNotFound},
			{"d", palyra.ReasonNotRegularFile},
			{".", palyra.ReasonNotRegularFile},
			{"fifo", palyra.ReasonNotRegularFile},
			{"sock", palyra.ReasonNotRegularFile},
			{"bin/x", palyra.ReasonPathInvalid},
			{"../out/secret", palyra.ReasonPathOutside},
			{filepath.Join(b.out, "secret"), palyra.ReasonPathOutside},
			{"/etc/passwd", palyra.ReasonPathOutside},
			{"/dev/null", palyra.ReasonPathOutside},
		} {
			b.refused(c.want, "read", args{"path": c.path})
		}
		b.refused(palyra.ReasonMalformedInput, "read", args{"path": "d/é", "offset": 1})
		b.must("read", args{"path": "bin", "encoding": "base64"})
	})
}

func TestReadDevice(t *testing.T) {
	b := newBox(t, os.Geteuid())
	if err := syscall.Mknod(b.path("null"), syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
		t.Logf("UNPROVEN HERE: no device can be made: %v", err)
		return
	}
	b.refused(palyra.ReasonNotRegularFile, "read", args{"path": "null"})
	b.refused(palyra.ReasonNotRegularFile, "write", args{"path": "null", "content": "x"})
}

func TestReadThroughLinks(t *testing.T) {
	each(t, func(b *box) {
		b.put("real/dir/f", "inside", 0o644)
		b.put("top", "top", 0o644)
		for link, target := range map[string]string{
			"l1": "real/dir/f", "l2": "l1", "ld": "real/dir", "abs": b.path("top"), "real/up": "../top", "self": ".", "real/dir/root": "../../",
		} {
			b.link(target, link)
		}
		for p, want := range map[string]struct{ content, real string }{
			"l1": {"inside", "real/dir/f"}, "l2": {"inside", "real/dir/f"}, "ld/f": {"inside", "real/dir/f"}, "abs": {"top", "top"},
			"real/up": {"top", "top"}, "self/self/top": {"top", "top"}, "real/dir/root/top": {"top", "top"},
		} {
			plan, err := b.plan("read", args{"path": p})
			if err != nil {
				b.Errorf("%s: %v", p, err)
				continue
			}
			if !slices.Equal(plan.Reads, []string{p, want.real}) || len(plan.Detail.Notes) != 1 {
				b.Errorf("%s: reads %q, notes %q", p, plan.Reads, plan.Detail.Notes)
			}
			if got, err := b.runPlan(b.Context(), plan); err != nil || got["content"] != want.content {
				b.Errorf("%s: %v, %v", p, got, err)
			}
		}
	})
}

func TestReadNeverLeavesThroughLinks(t *testing.T) {
	each(t, func(b *box) {
		b.mkdir("d")
		for link, target := range map[string]string{
			"rel": "../out/secret", "abs": filepath.Join(b.out, "secret"), "dir": "../out", "d/up": "../../out", "via": "dir/secret",
			"proc": "/proc/self/root", "trick": b.dir + "/../out/secret", "dots": "d/../../out/secret",
		} {
			b.link(target, link)
		}
		for _, p := range []string{"rel", "abs", "dir/secret", "d/up/secret", "via", "proc/etc/passwd", "trick", "dots"} {
			b.refused(palyra.ReasonPathOutside, "read", args{"path": p})
			b.refused(palyra.ReasonPathOutside, "search", args{"path": p, "pattern": "x"})
		}
		b.refused(palyra.ReasonPathOutside, "list", args{"path": "dir"})
		b.link("loop2", "loop1")
		b.link("loop1", "loop2")
		b.link("me/x", "me")
		b.refused(palyra.ReasonPathInvalid, "read", args{"path": "loop1"})
		b.refused(palyra.ReasonPathInvalid, "read", args{"path": "me"})
		b.link("gone", "dangling")
		b.refused(palyra.ReasonFileNotFound, "read", args{"path": "dangling"})
	})
}

// A link put in place after the plan was made is never followed.
func TestReadRefusesALinkSwappedInAfterThePlan(t *testing.T) {
	each(t, func(b *box) {
		b.put("d/f", "inside", 0o644)
		file, err := b.plan("read", args{"path": "d/f"})
		b.ok(err)
		list, err := b.plan("list", args{"path": "d"})
		b.ok(err)
		b.ok(os.RemoveAll(b.path("d")))
		b.link(b.out, "d")
		b.ok(os.WriteFile(filepath.Join(b.out, "f"), []byte("TOP SECRET"), 0o644))
		for _, p := range []palyra.Plan{file, list} {
			if got, err := b.runPlan(b.Context(), p); palyra.AsError(err).Reason != palyra.ReasonPathInvalid || err == nil {
				b.Errorf("%s: %v, %v", p.Tool, got, err)
			}
		}
	})
}

// So it is for the workspace itself.
func TestWorkspaceSwappedForALink(t *testing.T) {
	each(t, func(b *box) {
		b.put("f", "x", 0o644)
		p, err := b.plan("read", args{"path": "f"})
		b.ok(err)
		b.ok(os.Rename(b.dir, b.dir+".old"), os.Symlink(b.out, b.dir))
		if _, err := b.runPlan(b.Context(), p); palyra.AsError(err).Reason != palyra.ReasonPlanChanged {
			b.Errorf("%v", err)
		}
	})
}

func TestReadWithoutPermission(t *testing.T) {
	b := newBox(t, nobody)
	if os.Geteuid() != 0 {
		b.put("private", "x", 0o000)
		b.refused(palyra.ReasonPermission, "read", args{"path": "private"})
		return
	}
	// A root daemon in another's workspace: what the owner may not read stays
	// unread, though root could.
	b.ok(os.WriteFile(b.path("roots"), []byte("TOP SECRET"), 0o600), os.Mkdir(b.path("rootdir"), 0o700),
		os.WriteFile(b.path("rootdir/f"), []byte("TOP SECRET"), 0o644))
	b.refused(palyra.ReasonPermission, "read", args{"path": "roots"})
	b.refused(palyra.ReasonPermission, "read", args{"path": "rootdir/f"})
	b.refused(palyra.ReasonPermission, "write", args{"path": "roots", "content": "x"})
	b.refused(palyra.ReasonPermission, "write", args{"path": "rootdir/g", "content": "x"})
	if got := b.must("search", args{"pattern": "SECRET"}); len(got["matches"].([]any)) != 0 {
		b.Errorf("found %v", got)
	}
	if got := b.must("list", args{"recursive": true}); got["unreadable"] != 1.0 {
		b.Errorf("listed %v", got)
	}
	b.ok(os.Chown(b.dir, 1, 1)) // no longer the owner's
	p := palyra.Plan{
		Tool: "palyra.fs.list", Arguments: []byte("{}"), Workspace: palyra.WorkspaceRef{Path: b.dir, Owner: nobody},
		Reads: []string{"."},
	}
	if _, err := b.runPlan(t.Context(), p); palyra.AsError(err).Reason != palyra.ReasonPlanChanged {
		t.Errorf("another owner: %v", err)
	}
}

func TestWorkspaceOutOfItsOwnersReach(t *testing.T) {
	b := newBox(t, nobody)
	b.ok(os.Chmod(filepath.Dir(b.dir), 0o600))
	defer func() { _ = os.Chmod(filepath.Dir(b.dir), 0o755) }()
	b.refused(palyra.ReasonWorkspaceDenied, "list", args{})
}

func TestNoWorkspace(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.dir = ""
	b.refused(palyra.ReasonWorkspaceDenied, "list", args{})
}
