package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
)

// A link's name does not hide what the program is.
func TestEveryNameCounts(t *testing.T) {
	each(t, func(b *box) {
		s := b.put("s.sh", "true", 0o644)
		b.link("/bin/bash", "find")
		b.link("/bin/bash", "deep/awk")
		b.link("deep/awk", "jq")
		b.tools("python3")
		b.link("bin/python3", "bash2")
		b.ok(os.Symlink("bin/python3", b.path("cat2")))
		for _, command := range []string{"./find", "./jq", "./deep/awk", "./bash2", "./cat2"} {
			b.inputs(b.must(run(command+" s.sh")), map[string]string{"s.sh": s})
			b.refused(palyra.ReasonStdinDenied, "stdin", args{"command": command, "stdin_live": true})
		}
		// The name between counts as well, whatever is at both ends.
		b.put("plain", native(""), 0o755)
		b.link("../plain", "mid/sh")
		b.link("mid/sh", "tool")
		b.inputs(b.must(run("./tool s.sh")), map[string]string{"s.sh": s})
		// The name of a directory is nobody's.
		b.link("mid", "python")
		b.put("mid/tool", native(""), 0o755)
		b.inputs(b.must(run("./python/tool s.sh")), nil)
		b.must(args{"command": "./plain", "stdin_live": true})
	})
}

// The very same file as an interpreter of the system is that interpreter.
func TestHardLinkOfAnInterpreter(t *testing.T) {
	each(t, func(b *box) {
		b.d = driver(b, Config{Path: []string{b.path("none"), b.path("p")}})
		b.d.now = later
		s := b.put("s.sh", "true", 0o644)
		b.put("p/bash", native("bash"), 0o755)
		b.put("p/cat", native("cat"), 0o755)
		b.ok(os.Link(b.path("p/bash"), b.path("cat")))
		for range 2 { // looked at, and kept
			b.inputs(b.must(run("./cat s.sh")), map[string]string{"s.sh": s})
			b.refused(palyra.ReasonStdinDenied, "stdin", args{"command": "./cat", "stdin_live": true})
			b.must(args{"command": "cat", "stdin_live": true})
		}
		if len(b.d.known.byDir) != 1 {
			b.Errorf("%+v", b.d.known.byDir)
		}
		// What was kept is not used once the directory or the file is another.
		b.put("p/next", native("python"), 0o755)
		b.ok(os.Rename(b.path("p/next"), b.path("p/python3")), os.Link(b.path("p/python3"), b.path("dog")))
		b.inputs(b.must(run("./dog s.sh")), map[string]string{"s.sh": s})
		// A link may lead elsewhere while its directory stays as it is.
		b.put("first", native("dash"), 0o755)
		b.put("second", native("other"), 0o755)
		b.ok(os.Symlink("../choice", b.path("p/dash")), os.Symlink("second", b.path("choice")))
		b.inputs(b.must(run("./first s.sh")), nil)
		b.ok(os.Remove(b.path("choice")), os.Symlink("first", b.path("choice")))
		b.inputs(b.must(run("./first s.sh")), map[string]string{"s.sh": s})
		// A copy is not known: the package says so.
		b.put("copy", native("bash"), 0o755)
		b.inputs(b.must(run("./copy s.sh")), nil)
		// A file of many programs is what it is called.
		b.put("p/busybox", native("box"), 0o755)
		b.ok(os.Link(b.path("p/busybox"), b.path("p/sh")), os.Link(b.path("p/busybox"), b.path("p/head")))
		b.inputs(b.must(args{"command": "head", "args": []string{"s.sh"}, "stdin_live": true}), nil)
		b.inputs(b.must(run("sh s.sh")), map[string]string{"s.sh": s})
		b.inputs(b.must(run("busybox sh s.sh")), map[string]string{"s.sh": s})
		b.inputs(b.must(run("busybox head s.sh")), nil)
	})
}

// A listing of a moment ago may miss what came in the same tick.
func TestFreshListingIsNotKept(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.put("p/bash", native(""), 0o755)
	w, _ := b.at(b.path("p/bash"))
	if got, _ := w.interpreters(b.path("p")); len(got) != 1 || len(b.d.known.byDir) != 0 {
		t.Errorf("%v, %d kept", got, len(b.d.known.byDir))
	}
	if got, _ := w.interpreters(b.path("gone")); got != nil {
		t.Error(got)
	}
}

// Programs that only run another are followed to it.
func TestWrappersAreFollowed(t *testing.T) {
	each(t, func(b *box) {
		s := b.put("s.sh", "true", 0o644)
		sh, shBytes := b.system("sh")
		own := b.put("own", "#!/bin/sh\n", 0o755)
		both := map[string]string{sh: shBytes, "s.sh": s}
		for _, line := range []string{
			"env sh s.sh", "env A=b B= sh s.sh", "env -i sh s.sh", "env - sh s.sh", "env -u A sh s.sh", "env --unset=A -- sh s.sh",
			"timeout 5 sh s.sh", "timeout -k 1 --sig=KILL 5 sh s.sh",
			"nice sh s.sh", "nice -n 3 sh s.sh", "nice -3 sh s.sh", "nohup sh s.sh", "setsid -w sh s.sh", "stdbuf -oL sh s.sh",
			"ionice -c 3 sh s.sh", "chrt -o 0 sh s.sh", "taskset 1 sh s.sh", "prlimit --nofile=64 sh s.sh",
		} {
			p := b.must(run(line))
			b.inputs(p, both)
			b.noted(p, "runs another program: sh (bound)", true)
			b.refused(palyra.ReasonStdinDenied, "stdin", args{"command": run(line)["command"], "args": run(line)["args"], "stdin_live": true})
		}
		env, envBytes := b.system("env")
		nice, niceBytes := b.system("nice")
		b.inputs(b.must(run("timeout 5 env A=b nice sh s.sh")), map[string]string{env: envBytes, nice: niceBytes, sh: shBytes, "s.sh": s})
		b.inputs(b.must(run("env ./own x")), map[string]string{"own": own, sh: shBytes})
		b.noted(b.must(run("env ./own x")), "owner could change", true)
		b.put("sub/t.sh", "t", 0o644)
		b.put("sub/own", "#!/bin/sh\n# sub\n", 0o755)
		b.inputs(b.must(run("env -C sub sh t.sh")), map[string]string{sh: shBytes, "sub/t.sh": "t"})
		b.inputs(b.must(run("env -C sub ./own")), map[string]string{sh: shBytes, "sub/own": "#!/bin/sh\n# sub\n"})
		b.put("Makefile", "all:", 0o644)
		b.tools("make")
		b.inputs(b.must(run("timeout 5 bin/make --dir=sub")), map[string]string{
			"bin/make": native("make"), "sub/GNUmakefile": "-", "sub/makefile": "-", "sub/Makefile": "-",
		})
	})
}

func TestWrappersThatAreNotFollowed(t *testing.T) {
	each(t, func(b *box) {
		b.put("s.sh", "true", 0o644)
		for _, line := range []string{
			"env --frob sh s.sh", "env -x sh s.sh", "env -S$X sh s.sh", "timeout --frob 5 sh s.sh", "ionice -p 1",
			"chrt -i sh s.sh",
		} {
			p := b.must(run(line))
			b.inputs(p, nil)
			b.noted(p, "is not bound: its options are not all understood", true)
		}
		sh, shBytes := b.system("sh")
		nice, niceBytes := b.system("nice")
		b.inputs(b.must(run(strings.Repeat("nice ", maxWraps)+"sh s.sh")), map[string]string{sh: shBytes, "s.sh": "true"})
		p := b.must(run("env " + strings.Repeat("nice ", maxWraps) + "sh s.sh"))
		b.inputs(p, map[string]string{nice: niceBytes})
		b.noted(p, "runs another program: sh (not followed further)", true)
	})
}

// What is run in turn is held to what a command is held to.
func TestWrappedIsRefused(t *testing.T) {
	each(t, func(b *box) {
		b.put("plain", "x", 0o644)
		b.put("text", "x", 0o755)
		b.refused(palyra.ReasonFileNotFound, "install", run("timeout 5 no-such-program"))
		b.refused(palyra.ReasonFileNotFound, "path", run("env ./gone"))
		b.refused(palyra.ReasonNotExecutable, "chmod", run("nice ./plain"))
		b.refused(palyra.ReasonNotExecutable, "#!", run("nice ./text"))
		for _, line := range []string{
			"env LD_PRELOAD=./x.so touch x", "env PATH=. touch x", "env -i BASH_ENV=x sh", "nice env A=b GIT_SSH=x git",
			"env -SLD_PRELOAD=x touch", "env MY_TOKEN=x touch", "env LD_PRELOAD=x",
			"env --frob LD_PRELOAD=x sh",
		} {
			b.refused(palyra.ReasonEnvDenied, "leave it out", run(line))
		}
		b.refused(palyra.ReasonMalformedInput, "letters", run("env BASH_FUNC_x%%=() sh"))
	})
}

// Without PATH the C library looks elsewhere.
func TestLookupWithoutPath(t *testing.T) {
	each(t, func(b *box) {
		b.put("p/sh", native("mine"), 0o755)
		b.put("p/env", native("env"), 0o755)
		b.d = driver(b, Config{Path: []string{b.path("p")}})
		b.inputs(b.must(run("env sh")), map[string]string{"p/sh": native("mine")})
		real, err := filepath.EvalSymlinks("/bin/sh")
		b.ok(err)
		content, err := os.ReadFile(real)
		b.ok(err)
		for _, line := range []string{"env -i sh", "env -u PATH sh", "env - sh"} {
			b.inputs(b.must(run(line)), map[string]string{real: string(content)})
		}
	})
}
