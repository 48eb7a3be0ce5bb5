package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"palyra"
)

func TestPlan(t *testing.T) {
	each(t, func(b *box) {
		real, content := b.system("touch")
		got := b.must(run("touch made-by-palyra"))
		limits := most
		limits.WallMS, limits.OutputBytes = 120_000, 1<<20
		want := palyra.Plan{
			Tool: Name, Arguments: []byte(`{"args":["made-by-palyra"],"command":"touch"}`), Source: palyra.SourceBuiltin,
			Capabilities: []palyra.Capability{palyra.FilesystemRead, palyra.FilesystemWrite, palyra.ProcessExec},
			Workspace:    palyra.WorkspaceRef{Path: b.dir, Owner: int64(b.owner), Known: true},
			Executable:   palyra.Executable{Path: real, Digest: palyra.SumBytes([]byte(content))},
			Argv:         []string{"touch", "made-by-palyra"}, Cwd: b.dir, Tier: palyra.TierB, Limits: limits,
			Enforcement: palyra.Enforcement{
				Mode: "strict", Mechanisms: []string{"cell", "seccomp"},
				Limits: map[string]palyra.Hold{"memory": "polled", "cpu": "rlimit+polled", "disk": "none", "open_files": "rlimit"},
			},
			Detail: palyra.Detail{Summary: "run touch made-by-palyra", Notes: []string{
				"may change any file of the workspace; which ones is not known beforehand (not bound)",
				"other files that it reads than the inputs listed are not bound",
			}},
		}
		if b.owner == 0 {
			want.Detail.Notes = append(want.Detail.Notes, "runs as root, without capabilities: the workspace is root's")
		}
		want.Detail.Notes = append(want.Detail.Notes, "disk is not limited", "memory is polled, not enforced by the kernel")
		if diff := cmp.Diff(want, got); diff != "" {
			b.Error(diff)
		}
		if _, err := os.Lstat(b.path("made-by-palyra")); !errors.Is(err, os.ErrNotExist) {
			b.Error("planning ran it")
		}
	})
}

func TestSummaryIsOneShortLine(t *testing.T) {
	each(t, func(b *box) {
		p := b.must(args{"command": "touch", "args": []string{"a b", "\x1b[2J\n\u202e", strings.Repeat("x", 1<<16), "end"}})
		if s := p.Detail.Summary; !strings.HasPrefix(s, `run touch "a b" "`) || !strings.HasSuffix(s, "end") ||
			strings.ContainsAny(s, "\n\x1b\u202e") || len(s) > 2*summaryLength {
			b.Errorf("%q", s)
		}
	})
}

func TestLookup(t *testing.T) {
	each(t, func(b *box) {
		for _, dir := range []string{"p1", "p2", "p3", "p4"} {
			b.mkdir(dir)
		}
		b.d = driver(b, Config{Path: []string{b.path("none"), b.path("p1"), b.path("p2"), b.path("p3"), b.path("p4")}})
		b.mkdir("p1/tool")
		b.put("p2/tool", native("2"), 0o644)
		b.put("p3/tool", native("3"), 0o755)
		b.put("p4/tool", native("4"), 0o755)
		b.put("tool", native("here"), 0o755)
		b.put("only-here", native("here"), 0o755)
		if p := b.must(run("tool")); p.Executable.Path != b.path("p3/tool") || p.Argv[0] != "tool" || len(p.Env) != 1 {
			b.Errorf("%+v", p.Executable)
		}
		if p := b.must(run("./tool")); p.Executable.Path != b.path("tool") || p.Argv[0] != "./tool" {
			b.Errorf("%+v", p.Executable)
		}
		b.refused(palyra.ReasonFileNotFound, "./only-here", run("only-here"))
		b.refused(palyra.ReasonFileNotFound, "install", run("nowhere"))
		b.put("p4/plain", "x", 0o644)
		b.refused(palyra.ReasonNotExecutable, "chmod", run("plain"))
		b.refused(palyra.ReasonNotRegularFile, "", run("."))
		b.refused(palyra.ReasonNotRegularFile, "", run(".."))
	})
}

func TestCommandRefused(t *testing.T) {
	each(t, func(b *box) {
		b.mkdir("dir")
		b.ok(unix.Mkfifo(b.path("fifo"), 0o777))
		b.own(b.path("fifo"))
		b.put("plain", native(""), 0o644)
		b.put("empty", "", 0o755)
		b.put("text", "echo hello\n", 0o755)
		b.put("bare", "#!\n", 0o755)
		b.put("prog", native(""), 0o755)
		b.link("gone", "dangling")
		b.link("loop2", "loop1")
		b.link("loop1", "loop2")
		b.link("fifo", "to-fifo")
		for _, c := range []struct {
			command string
			reason  palyra.Reason
			remedy  string
		}{
			{"./dir", palyra.ReasonNotRegularFile, "program"},
			{"./dir/", palyra.ReasonNotRegularFile, "program"},
			{"./fifo", palyra.ReasonNotRegularFile, "program"},
			{"./to-fifo", palyra.ReasonNotRegularFile, "program"},
			{"/", palyra.ReasonNotRegularFile, "program"},
			{"./plain", palyra.ReasonNotExecutable, "chmod"},
			{"./empty", palyra.ReasonNotExecutable, "#!"},
			{"./text", palyra.ReasonNotExecutable, "#!"},
			{"./gone", palyra.ReasonFileNotFound, "path"},
			{"./dangling", palyra.ReasonFileNotFound, "path"},
			{"./loop1", palyra.ReasonPathInvalid, "real path"},
			{"./prog/x", palyra.ReasonPathInvalid, "path"},
			{"./prog/..", palyra.ReasonPathInvalid, "path"},
			{"./prog/.", palyra.ReasonPathInvalid, "path"},
			{"./" + strings.Repeat("x", 300), palyra.ReasonPathInvalid, "path"},
			{strings.Repeat("./", maxDepth) + strings.Repeat("dir/../", 100) + "gone", palyra.ReasonFileNotFound, "path"},
			{"/dev/null", palyra.ReasonPathInvalid, "file itself"},
			{"/proc/self/exe", palyra.ReasonPathInvalid, "file itself"},
			{"/proc/self/root/usr/bin/env", palyra.ReasonPathInvalid, "file itself"},
		} {
			b.refused(c.reason, c.remedy, args{"command": c.command})
		}
		_, err := b.plan(args{"command": "./bare"})
		if palyra.AsError(err).Reason != palyra.ReasonNotExecutable {
			b.Error(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		cancel()
		if _, err := b.planIn(ctx, run("touch x")); !errors.Is(err, context.Canceled) {
			b.Error(err)
		}
	})
}

// A program that cannot be read cannot be bound, whoever the daemon is; root's
// own runs read what root reads.
func TestUnreadable(t *testing.T) {
	each(t, func(b *box) {
		b.put("prog", native(""), 0o111)
		if b.owner == 0 {
			b.must(run("./prog"))
			return
		}
		b.refused(palyra.ReasonPermission, "permissions", run("./prog"))
	})
}

func TestHugeProgram(t *testing.T) {
	each(t, func(b *box) {
		b.put("huge", native(""), 0o755)
		b.ok(os.Truncate(b.path("huge"), maxExecutable+1)) // a hole: it takes no space
		b.refused(palyra.ReasonFileTooLarge, "smaller", run("./huge"))
		b.d.maxExe = 10
		b.ok(os.Truncate(b.path("huge"), 11))
		b.refused(palyra.ReasonFileTooLarge, "smaller", run("./huge"))
		b.ok(os.Truncate(b.path("huge"), 10))
		b.must(run("./huge"))
	})
}

// A root daemon looks with its own eyes only where the owner could look.
func TestOwnersPermissionsHold(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root serves others; the run as root does this")
		return
	}
	b := newBox(t, nobody)
	hidden := filepath.Join(b.out, "hidden")
	b.ok(os.Chmod(b.out, 0o755), os.Mkdir(hidden, 0o700), os.WriteFile(filepath.Join(hidden, "prog"), []byte(native("")), 0o755),
		os.WriteFile(filepath.Join(hidden, "x.py"), []byte("secret"), 0o644))
	b.refused(palyra.ReasonPermission, "permissions", args{"command": filepath.Join(hidden, "prog")})
	b.refused(palyra.ReasonPermission, "permissions", args{"command": filepath.Join(hidden, "no-such")})
	b.put("python3", native(""), 0o755)
	b.inputs(b.must(args{"command": "./python3", "args": []string{filepath.Join(hidden, "x.py")}}),
		map[string]string{filepath.Join(hidden, "x.py"): "-"})

	// Executable for others than the owner and the group is not for the owner.
	b.put("others", native(""), 0o745)
	b.must(run("./others"))
	b.put("not-mine", native(""), 0o655)
	b.refused(palyra.ReasonNotExecutable, "chmod", run("./not-mine"))

	b.mkdir("closed")
	b.ok(os.Chown(b.path("closed"), 0, 0), os.Chmod(b.path("closed"), 0o700))
	b.refused(palyra.ReasonPermission, "permissions", args{"command": "touch", "cwd": "closed"})
	b.ok(os.Chown(b.dir, 1234, 1234))
	b.refused(palyra.ReasonPlanChanged, "anew", run("touch x"))
}

func TestForeignWorkspace(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Log("root serves everyone; the run as an ordinary user does this")
		return
	}
	b := newBox(t, 1)
	b.refused(palyra.ReasonWorkspaceDenied, "palyrad", run("touch x"))
}

func TestPrivilegedProgramIsNoted(t *testing.T) {
	each(t, func(b *box) {
		b.put("plain", native(""), 0o755)
		b.noted(b.must(run("./plain")), "privileges of its own", false)
		b.put("suid", native(""), 0o755)
		b.ok(unix.Chmod(b.path("suid"), 0o4755))
		b.noted(b.must(run("./suid")), "privileges of its own", true)
		if os.Geteuid() == 0 {
			b.put("caps", native(""), 0o755)
			caps := []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // cap_net_bind_service+ep
			if err := unix.Setxattr(b.path("caps"), "security.capability", caps, 0); err != nil {
				b.Logf("UNPROVEN HERE: no file capabilities: %v", err)
				return
			}
			b.noted(b.must(run("./caps")), "privileges of its own", true)
		}
	})
}

func TestNoexecMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("needs a mount; the run as root does this")
		return
	}
	b := newBox(t, 0)
	b.mkdir("m")
	if err := unix.Mount("none", b.path("m"), "tmpfs", unix.MS_NOEXEC, "size=64k,mode=0755"); err != nil {
		t.Logf("UNPROVEN HERE: nothing can be mounted: %v", err)
		return
	}
	defer func() { _ = unix.Unmount(b.path("m"), 0) }()
	b.put("m/prog", native(""), 0o755)
	b.refused(palyra.ReasonNotExecutable, "interpreter", run("./m/prog"))
}

func TestSealed(t *testing.T) {
	each(t, func(b *box) {
		b.put("bin/prog", native(""), 0o555)
		b.link("bin/prog", "link")
		for command, sealed := range map[string]bool{"touch": false, "./bin/prog": true, "./link": true} {
			p := b.must(run(command))
			if p.Executable.Sealed != sealed {
				b.Errorf("%s: %+v", command, p.Executable)
			}
			b.noted(p, "sealed copy", sealed)
			if sealed && p.Executable.Path != b.path("bin/prog") {
				b.Errorf("%s: %s", command, p.Executable.Path)
			}
		}
		// Outside, in a directory of the owner's: it could be replaced.
		b.ok(os.WriteFile(filepath.Join(b.out, "prog"), []byte(native("")), 0o755), os.Chmod(filepath.Join(b.out, "prog"), 0o755))
		if p := b.must(args{"command": filepath.Join(b.out, "prog")}); !p.Executable.Sealed {
			b.Errorf("%+v", p.Executable)
		}
	})
}

func TestLiveStdin(t *testing.T) {
	each(t, func(b *box) {
		p := b.must(args{"command": "cat", "stdin_live": true})
		if p.Stdin != palyra.StdinLive {
			b.Errorf("%+v", p)
		}
		b.noted(p, "stdin: live", true)
		b.link("/bin/sh", "innocent")
		b.put("python3.12", native(""), 0o755)
		for _, command := range []string{
			"sh", "/bin/sh", "bash", "perl", "env", "xargs", "nice", "timeout", "prlimit", "bwrap", "make", "awk",
			"sed", "./python3.12",
		} {
			b.refused(palyra.ReasonStdinDenied, "stdin", args{"command": command, "stdin_live": true})
			b.must(args{"command": command, "stdin": "x"})
		}
		// By its real name, where it is called by another.
		b.refused(palyra.ReasonStdinDenied, "stdin", args{"command": "./innocent", "stdin_live": true})
		b.refused(palyra.ReasonStdinDenied, "leave out the terminal (-t", args{"command": "sh", "stdin_live": true, "terminal": args{}})
		b.refused(palyra.ReasonStdinDenied, "leave out the terminal (-t", args{
			"command": "sh", "args": []string{"-c", "id"},
			"stdin_live": true, "terminal": args{},
		})
	})
}
