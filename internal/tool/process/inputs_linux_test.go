package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra"
)

// tools puts stand-ins for programs into the workspace.
func (b *box) tools(names ...string) {
	b.Helper()
	for _, n := range names {
		b.put("bin/"+n, native(n), 0o755)
	}
}

func TestScriptOperand(t *testing.T) {
	each(t, func(b *box) {
		b.tools("python3", "sh", "awk", "sed")
		x := b.put("x.py", "print(1)", 0o644)
		b.put("sub/y.py", "print(2)", 0o644)
		b.put("prog.awk", "{print}", 0o644)
		for line, want := range map[string]map[string]string{
			"bin/python3 x.py data":            {"x.py": x},
			"bin/python3 ./sub/../x.py":        {"x.py": x},
			"bin/python3 " + b.path("x.py"):    {"x.py": x},
			"bin/python3 none.py":              {"none.py": "-"},
			"bin/python3 x.py/none":            {"x.py/none": "-"},
			"bin/python3 ../none.py":           {filepath.Join(filepath.Dir(b.dir), "none.py"): "-"},
			"bin/python3 -c code":              {},
			"bin/python3":                      {},
			"bin/python3 -":                    {},
			"bin/sh -c x":                      {},
			"bin/sh x.py":                      {"x.py": x},
			"bin/awk -f prog.awk -f none data": {"prog.awk": "{print}", "none": "-"},
			"bin/sed -n -f x.py":               {"x.py": x},
		} {
			b.inputs(b.must(run(line)), want)
		}
		p := b.must(args{"command": "../bin/python3", "args": []string{"y.py"}, "cwd": "sub"})
		b.inputs(p, map[string]string{"sub/y.py": "print(2)"})
	})
}

func TestInputsThroughLinks(t *testing.T) {
	each(t, func(b *box) {
		b.tools("python3")
		outside := filepath.Join(b.out, "o.py")
		b.ok(os.WriteFile(outside, []byte("out"), 0o644), os.Chmod(outside, 0o644))
		b.own(outside)
		b.put("real/x.py", "in", 0o644)
		b.link("real", "d")
		b.link("../real/x.py", "links/l.py")
		b.link(outside, "o.py")
		b.link("gone", "dangling.py")
		b.link("loop.py", "loop.py")
		for operand, want := range map[string]map[string]string{
			"d/x.py":      {"real/x.py": "in"},
			"links/l.py":  {"real/x.py": "in"},
			"o.py":        {outside: "out"},
			outside:       {outside: "out"},
			"dangling.py": {"dangling.py": "-"},
			"loop.py":     {"loop.py": "-"},
			"d/../x.py":   {"x.py": "-"}, // the parent of real, which has none
		} {
			b.inputs(b.must(run("bin/python3 "+operand)), want)
		}
	})
}

func TestInputsThatAreNoFiles(t *testing.T) {
	each(t, func(b *box) {
		b.tools("python3", "node", "sh")
		b.ok(unix.Mkfifo(b.path("fifo"), 0o666))
		b.own(b.path("fifo"))
		p := b.must(run("bin/python3 fifo"))
		b.inputs(p, nil)
		b.noted(p, "not a regular file", true)
		p = b.must(run("bin/python3 /dev/stdin"))
		b.inputs(p, nil)
		b.noted(p, "/dev/stdin is not bound", true)

		main := b.put("app/__main__.py", "main", 0o644)
		b.inputs(b.must(run("bin/python3 app")), map[string]string{"app/__main__.py": main})
		p = b.must(run("bin/sh app"))
		b.inputs(p, nil)
		b.noted(p, "app is a directory", true)

		b.put("mod.js", "js", 0o644)
		b.inputs(b.must(run("bin/node mod")), map[string]string{"mod": "-", "mod.js": "js"})
		b.inputs(b.must(run("bin/node none")), map[string]string{"none": "-", "none.js": "-", "none.json": "-", "none.node": "-"})
		b.put("pkg/index.js", "index", 0o644)
		b.inputs(b.must(run("bin/node pkg")), map[string]string{
			"pkg/package.json": "-", "pkg/index.js": "index", "pkg.js": "-", "pkg.json": "-", "pkg.node": "-",
		})
	})
}

func TestMakefile(t *testing.T) {
	each(t, func(b *box) {
		b.tools("make")
		b.inputs(b.must(run("bin/make all")), map[string]string{"GNUmakefile": "-", "makefile": "-", "Makefile": "-"})
		b.put("Makefile", "big", 0o644)
		b.inputs(b.must(run("bin/make")), map[string]string{"GNUmakefile": "-", "makefile": "-", "Makefile": "big"})
		b.put("makefile", "small", 0o644)
		b.inputs(b.must(run("bin/make")), map[string]string{"GNUmakefile": "-", "makefile": "small"})
		b.put("GNUmakefile", "gnu", 0o644)
		b.inputs(b.must(run("bin/make")), map[string]string{"GNUmakefile": "gnu"})
		b.inputs(b.must(run("bin/make -f Makefile -f other")), map[string]string{"Makefile": "big", "other": "-"})
		b.put("sub/deep/Makefile", "deep", 0o644)
		b.inputs(b.must(run("bin/make -C sub -Cdeep")), map[string]string{
			"sub/deep/GNUmakefile": "-", "sub/deep/makefile": "-",
			"sub/deep/Makefile": "deep",
		})
		b.link("sub/deep", "l")
		b.inputs(b.must(run("bin/make -C l -f Makefile")), map[string]string{"sub/deep/Makefile": "deep"})
		b.put("sub/x.mk", "x", 0o644)
		b.inputs(b.must(run("bin/make -C l/.. -f x.mk")), map[string]string{"sub/x.mk": "x"}) // the parent of what l stands for
		b.inputs(b.must(run("bin/make -C l/..")), map[string]string{"sub/GNUmakefile": "-", "sub/makefile": "-", "sub/Makefile": "-"})
		b.inputs(b.must(run("bin/make -C gone -f Makefile")), map[string]string{"gone/Makefile": "-"})
	})
}

func TestPackageFile(t *testing.T) {
	each(t, func(b *box) {
		b.tools("npm", "yarn", "pnpm")
		b.mkdir("a/b")
		b.ok(os.WriteFile(filepath.Join(filepath.Dir(b.dir), "package.json"), []byte("above"), 0o644))
		for _, line := range []string{"npm run build", "yarn build", "pnpm test"} {
			a := args{"command": b.path("bin/" + run(line)["command"].(string)), "args": run(line)["args"], "cwd": "a/b"}
			b.inputs(b.must(a), map[string]string{"a/b/package.json": "-", "a/package.json": "-", "package.json": "-"})
		}
		b.put("a/package.json", "mine", 0o644)
		b.inputs(b.must(args{"command": b.path("bin/npm"), "args": []string{"test"}, "cwd": "a/b"}),
			map[string]string{"a/b/package.json": "-", "a/package.json": "mine"})
		b.inputs(b.must(run("bin/npm --prefix a start")), map[string]string{"a/package.json": "mine"})
	})
}

func TestGoRun(t *testing.T) {
	each(t, func(b *box) {
		b.tools("go")
		b.put("main.go", "package main", 0o644)
		b.inputs(b.must(run("bin/go run main.go other.go x")), map[string]string{"main.go": "package main", "other.go": "-"})
		b.inputs(b.must(run("bin/go build main.go")), nil)
	})
}

func TestWrappersAreNamed(t *testing.T) {
	each(t, func(b *box) {
		b.noted(b.must(run("env A=b sh x")), "runs another program: sh", true)
		b.noted(b.must(run("timeout 5 touch x")), "runs another program: touch", true)
		b.noted(b.must(args{"command": "xargs", "args": []string{"\x1b[2J\nx"}}), `runs another program: "\x1b[2J\nx" (not bound)`, true)
		b.noted(b.must(run("touch x")), "runs another program", false)
	})
}

// Where an option leaves open which argument is the script, all that can be are
// bound, within reason.
func TestUncertainOperand(t *testing.T) {
	each(t, func(b *box) {
		b.tools("python3", "node")
		for _, name := range []string{"x.py", "y.py", "d/z.py"} {
			b.put(name, name, 0o644)
		}
		outside := filepath.Join(b.out, "o.py")
		b.ok(os.WriteFile(outside, []byte("out"), 0o644), os.Chmod(outside, 0o644))
		const unsure = "an option is not understood"
		p := b.must(run("bin/python3 --frob x.py y.py d gone d/z.py /dev/null " + outside))
		b.inputs(p, map[string]string{"x.py": "x.py", "y.py": "y.py", "d/z.py": "d/z.py"})
		b.noted(p, unsure, true)
		p = b.must(run("bin/python3 --frob=y.py x.py"))
		b.inputs(p, map[string]string{"x.py": "x.py", "y.py": "y.py"})
		b.noted(p, unsure, true)
		p = b.must(run("bin/python3 -Z x.py y.py")) // -Z may take a value, and then y.py is the script
		b.inputs(p, map[string]string{"x.py": "x.py", "y.py": "y.py"})
		b.noted(p, unsure, true)
		for _, line := range []string{"bin/python3 x.py --frob y.py", "bin/python3 --version x.py", "bin/python3 -Bu x.py -Z y.py"} {
			p = b.must(run(line))
			b.inputs(p, map[string]string{"x.py": "x.py"})
			b.noted(p, unsure, false)
		}
		p = b.must(run("bin/python3 --frob x.py" + strings.Repeat(" x.py", maxMaybe-1) + " y.py"))
		b.inputs(p, map[string]string{"x.py": "x.py"})
		b.noted(p, "the others are not", true)
	})
}

// An input that is too large to hash cannot be bound, and the call is refused.
func TestHugeInput(t *testing.T) {
	each(t, func(b *box) {
		b.tools("python3")
		b.put("huge.py", "", 0o644)
		b.ok(os.Truncate(b.path("huge.py"), maxScript+1))
		b.refused(palyra.ReasonFileTooLarge, "smaller", run("bin/python3 huge.py"))
		if _, err := b.plan(run("bin/python3 huge.py")); !strings.Contains(err.Error(), "256 MiB") {
			b.Error(err)
		}
	})
}

// What the program itself is, is bound already.
func TestProgramIsNoInput(t *testing.T) {
	each(t, func(b *box) {
		b.tools("python3")
		b.inputs(b.must(run("bin/python3 bin/python3")), nil)
	})
}

// A link to a name that is no text is refused with what to do about it: a plan could
// not say which file is meant.
func TestInputsBehindNamesThatAreNoText(t *testing.T) {
	each(t, func(b *box) {
		b.tools("sh")
		b.put("b\xff.sh", "echo", 0o644)
		b.put("d\xff/x.sh", "echo", 0o644)
		b.link("b\xff.sh", "l.sh")
		b.link("l.sh", "again.sh")
		b.link("d\xff", "d")
		for _, operand := range []string{"l.sh", "again.sh", "d/x.sh"} {
			b.refused(palyra.ReasonMalformedInput, "rename", run("bin/sh "+operand))
		}
		b.link("gone\xff", "dangling.sh") // nothing is there to be named
		b.inputs(b.must(run("bin/sh dangling.sh")), map[string]string{"dangling.sh": "-"})
	})
}
