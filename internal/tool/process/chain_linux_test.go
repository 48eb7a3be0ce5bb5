package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"palyra"
)

func TestChain(t *testing.T) {
	each(t, func(b *box) {
		sh, shBytes := b.system("sh")
		env, envBytes := b.system("env")
		script := b.put("x", "#!/bin/sh\ntrue\n", 0o755)
		p := b.must(run("./x"))
		b.inputs(p, map[string]string{sh: shBytes})
		if p.Executable.Path != b.path("x") || p.Executable.Digest != palyra.SumBytes([]byte(script)) || !p.Executable.Sealed {
			b.Errorf("%+v", p.Executable)
		}
		b.noted(p, "interpreter", false)

		b.put("sub/y", "#! ../ws/x\n", 0o755) // relative to cwd, not to the script
		b.inputs(b.must(run("./sub/y")), map[string]string{"x": script, sh: shBytes})
		b.noted(b.must(run("./sub/y")), "owner could change", true)

		for _, line := range []string{"#!/usr/bin/env sh", "#!/usr/bin/env -S sh -e", "#!/usr/bin/env -S A=b sh"} {
			b.put("e", line+"\n", 0o755)
			b.inputs(b.must(run("./e")), map[string]string{env: envBytes, sh: shBytes})
		}
		b.put("e", "#!/usr/bin/env ./x\n", 0o755)
		b.inputs(b.must(run("./e")), map[string]string{env: envBytes, "x": script, sh: shBytes})
		b.put("e", "#!/usr/bin/env -S --frob sh\n", 0o755)
		p = b.must(run("./e"))
		b.inputs(p, map[string]string{env: envBytes})
		b.noted(p, "through env is not bound", true)
		b.put("e", "#!/usr/bin/env -u A sh\n", 0o755) // one argument: env runs the script again, for ever
		p = b.must(run("./e"))
		b.inputs(p, map[string]string{env: envBytes})
		b.noted(p, "not followed further", true)
	})
}

// The rest of a "#!" line is an argument of the interpreter: what it interprets is
// bound, what it sets is judged, and its input is as little known beforehand.
func TestArgumentsOfALine(t *testing.T) {
	each(t, func(b *box) {
		sh, shBytes := b.system("sh")
		env, envBytes := b.system("env")
		b.put("evil.sh", "true", 0o644)
		b.put("x", "#!/bin/sh ./evil.sh\n", 0o755)
		b.inputs(b.must(run("./x")), map[string]string{sh: shBytes, "evil.sh": "true"})
		b.put("x", "#!/usr/bin/env -S sh ./evil.sh\n", 0o755)
		b.inputs(b.must(run("./x")), map[string]string{env: envBytes, sh: shBytes, "evil.sh": "true"})
		b.link("/bin/sh", "find")
		b.put("x", "#!./find ./evil.sh\n", 0o755)
		b.inputs(b.must(run("./x")), map[string]string{sh: shBytes, "evil.sh": "true"})
		for _, line := range []string{"#!/bin/sh", "#!/bin/sh -s", "#!./find", "#!/usr/bin/env sh"} {
			b.put("x", line+"\n", 0o755)
			b.refused(palyra.ReasonStdinDenied, "stdin", args{"command": "./x", "stdin_live": true})
		}
		b.put("x", "#!/usr/bin/env -S LD_PRELOAD=./x.so sh\n", 0o755)
		b.refused(palyra.ReasonEnvDenied, "leave it out", run("./x"))
	})
}

// A link on the way to an interpreter is followed by the kernel, not by us: where
// the owner could change it, the plan says so.
func TestInterpreterBehindALink(t *testing.T) {
	each(t, func(b *box) {
		sh, shBytes := b.system("sh")
		b.link("/bin/sh", "venv/sh")
		b.put("x", "#!"+b.path("venv/sh")+"\n", 0o755)
		p := b.must(run("./x"))
		b.inputs(p, map[string]string{sh: shBytes})
		b.noted(p, "owner could change", true)
	})
}

func TestChainRefused(t *testing.T) {
	each(t, func(b *box) {
		for _, c := range []struct{ line, remedy string }{
			{"#!/no/such/interpreter", "install"},
			{"#!/bin/sh\r", "LF"},
			{"#!/usr/bin/env no-such-interpreter", "install"},
			{"#!/usr/bin/env sh -e", "install"}, // one word for env, without -S
			{"#!/usr/bin/env sh\r", "LF"},
			{"#!sh", "install"}, // in cwd, never looked up
			{"#!.", "install"},
			{"#!/proc/self/exe", "install"},
			{"#!./plain", "install"},
		} {
			b.put("plain", native(""), 0o644)
			b.put("x", c.line+"\n", 0o755)
			b.refused(palyra.ReasonNotExecutable, c.remedy, run("./x"))
		}
		b.put("x", "#!./x\n", 0o755)
		if _, err := b.plan(run("./x")); palyra.AsError(err).Reason != palyra.ReasonNotExecutable ||
			!strings.Contains(err.Error(), "one another") {
			b.Error(err)
		}
	})
}

func TestChainLength(t *testing.T) {
	each(t, func(b *box) {
		b.put("s0", native(""), 0o755)
		for i := 1; i <= maxChain+1; i++ {
			b.put(fmt.Sprintf("s%d", i), fmt.Sprintf("#!./s%d\n", i-1), 0o755)
		}
		if p := b.must(run(fmt.Sprintf("./s%d", maxChain))); len(p.Inputs) != maxChain {
			b.Errorf("%+v", p.Inputs)
		}
		if _, err := b.plan(run(fmt.Sprintf("./s%d", maxChain+1))); palyra.AsError(err).Reason != palyra.ReasonNotExecutable {
			b.Error(err)
		}
	})
}

// The kernel reads "#!" lines as we do: what it passes to the interpreter, or
// that it takes none, is compared with what we find.
func TestShebangAsTheKernel(t *testing.T) {
	dir := t.TempDir()
	pad := func(n int) string { return strings.Repeat("x", n) }
	for i, line := range []string{
		"#!/bin/echo\n", "#!/bin/echo", "#! \t/bin/echo \t\n", "#!/bin/echo a  b \t\nmore", "#!/bin/echo\ta\n", "#!/bin/echo a\x00b\n",
		"#!/bin/echo\x00a\n",
		"#!/bin/echo a\r\n", "#!/bin/echo\r\n", "#!\n", "#!", "#! \n", "#!\x00\n", "#!/bin/echo " + pad(300), "#!/bin/echo " + pad(300) + "\n",
		"#!/" + pad(300),
		"#!/bin/echo" + strings.Repeat(" ", 300) + "a\n", "#!" + strings.Repeat(" ", 240) + "/bin/echo\n",
		"#!" + strings.Repeat(" ", 244) + "/bin/echo\n",
		"#!" + strings.Repeat(" ", 245) + "/bin/echo\n", "#!" + strings.Repeat(" ", 243) + "/bin/echo b\n", "\n#!/bin/echo\n", "",
	} {
		file := fmt.Sprintf("%s/s%d", dir, i)
		if err := os.WriteFile(file, []byte(line), 0o755); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(file).Output()
		in, found, ok := shebang([]byte(line))
		switch {
		case !found || !ok:
			if !errors.Is(err, syscall.ENOEXEC) && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.EACCES) {
				t.Errorf("%.40q: the kernel runs it: %q, %v", line, out, err)
			}
		case in.path != "/bin/echo":
			if !errors.Is(err, syscall.ENOENT) {
				t.Errorf("%.40q: %q, the kernel: %v", line, in.path, err)
			}
		default:
			want := strings.TrimLeft(in.arg+" ", " ") + file + "\n"
			if err != nil || string(out) != want {
				t.Errorf("%.40q: %q, the kernel: %q, %v", line, want, out, err)
			}
		}
	}
}
