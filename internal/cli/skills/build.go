package skills

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/syntax"
	"palyra/internal/durable"
	"palyra/internal/show"
	"palyra/internal/skill/archive"
	"palyra/internal/skill/project"
)

func buildCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "build [DIR]", Short: "Build the modules of a skill", Args: syntax.Takes("[DIR]"),
		Long: "Builds every module that skill.toml names: NAME.wasm from src/NAME/ where that is there,\n" +
			"else from src/. A directory with a go.mod is built by Go for wasip1, one with .c files by\n" +
			"clang with wasi-libc, on this machine and as you. How it was built goes into build.json,\n" +
			"from which 'palyra skills pack' makes the bill of materials and the provenance.",
		Example: "  palyra skills build\n  palyra skills build demo",
		RunE: func(cmd *cobra.Command, args []string) error {
			root, dir, err := directory(args)
			if err != nil {
				return err
			}
			defer root.Close()
			m, _, err := project.Manifest(root)
			if err != nil {
				return err
			}
			var modules []string
			for _, t := range m.Tools {
				if !slices.Contains(modules, t.Module) {
					modules = append(modules, t.Module)
				}
			}
			b := &building{inv: inv, dir: dir}
			b.record.Sources, b.record.Modules = map[string]string{}, map[string]string{}
			for _, module := range modules {
				if err := b.module(cmd.Context(), module); err != nil {
					return err
				}
			}
			return b.finish(modules)
		},
	}
}

// building is the building of one skill.
type building struct {
	inv    *invocation.Invocation
	dir    string
	record archive.Build
}

// module builds one module.
func (b *building) module(ctx context.Context, module string) error {
	from := filepath.Join(b.dir, project.Source, strings.TrimSuffix(module, ".wasm"))
	if info, err := os.Stat(from); err != nil || !info.IsDir() {
		from = filepath.Join(b.dir, project.Source)
	}
	out, err := filepath.Abs(filepath.Join(b.dir, module))
	if err != nil {
		return err
	}
	inC, _ := filepath.Glob(filepath.Join(from, "*.c"))
	switch _, err := os.Stat(filepath.Join(from, "go.mod")); {
	case err == nil:
		err = b.goModule(ctx, from, out)
		if err != nil {
			return err
		}
	case len(inC) > 0:
		if err := b.cModule(ctx, from, inC, out); err != nil {
			return err
		}
	default:
		return exit.Failedf(palyra.ReasonFileNotFound, "%s has no source: neither go.mod nor .c files are in %s", module, from).
			WithRemedy("put the module there ready built, and go on with 'palyra skills pack'; or see 'palyra skills init --help'")
	}
	if err := b.sources(from); err != nil {
		return err
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		return fmt.Errorf("skills: build: %w", err)
	}
	b.record.Modules[module] = string(palyra.SumBytes(raw))
	return nil
}

// goModule builds by the Go toolchain.
func (b *building) goModule(ctx context.Context, from, out string) error {
	env := []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off"}
	words := []string{"go", "build", "-trimpath", "-ldflags=-s -w -buildid="}
	if err := b.run(ctx, from, env, append(slices.Clone(words), "-o", out, ".")); err != nil {
		return err
	}
	b.record.Commands = append(b.record.Commands, append(env, words...))
	version, err := b.ask(ctx, from, nil, "go", "version")
	if err != nil {
		return err
	}
	b.record.Tool = strings.TrimSpace(version)
	const each = "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}"
	list, err := b.ask(ctx, from, env, "go", "list", "-deps", "-f", each, ".")
	if err != nil {
		return err
	}
	b.library(archive.Library{Name: "std", Version: goVersion(b.record.Tool), PURL: "pkg:golang/std@" + goVersion(b.record.Tool)})
	for line := range strings.Lines(list) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			b.library(archive.Library{Name: name, Version: version, PURL: "pkg:golang/" + name + "@" + version})
		}
	}
	return nil
}

// goVersion is the version in what 'go version' says.
func goVersion(said string) string {
	if words := strings.Fields(said); len(words) > 2 {
		return strings.TrimPrefix(words[2], "go")
	}
	return ""
}

func (b *building) library(l archive.Library) {
	if !slices.Contains(b.record.Libraries, l) {
		b.record.Libraries = append(b.record.Libraries, l)
	}
}

// cModule builds by clang.
func (b *building) cModule(ctx context.Context, from string, files []string, out string) error {
	words := []string{"clang", "--target=wasm32-wasi", "-O2", "-s"}
	line := append(slices.Clone(words), "-o", out)
	for _, f := range files {
		line = append(line, filepath.Base(f))
	}
	if err := b.run(ctx, from, nil, line); err != nil {
		return err
	}
	b.record.Commands = append(b.record.Commands, words)
	version, err := b.ask(ctx, from, nil, "clang", "--version")
	if err != nil {
		return err
	}
	b.record.Tool, _, _ = strings.Cut(version, "\n")
	b.library(archive.Library{Name: "wasi-libc"})
	return nil
}

// run runs a command in a directory, with what it prints on stderr.
func (b *building) run(ctx context.Context, dir string, env, words []string) error {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir, cmd.Env = dir, append(slices.Clone(b.inv.Env), env...)
	cmd.Stdout, cmd.Stderr = b.inv.Stderr, b.inv.Stderr
	return b.failed(words[0], cmd.Run())
}

// ask runs a command and returns what it prints.
func (b *building) ask(ctx context.Context, dir string, env []string, words ...string) (string, error) {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(slices.Clone(b.inv.Env), env...), b.inv.Stderr
	out, err := cmd.Output()
	return string(out), b.failed(words[0], err)
}

func (b *building) failed(program string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound):
		remedy := map[string]string{
			"go": "install Go 1.24 or newer", "clang": "on Debian or Ubuntu: sudo apt-get install clang lld wasi-libc libclang-rt-dev-wasm32",
		}[program]
		return exit.Failedf(palyra.ReasonNotExecutable, "%s is not here, and the module is built by it", program).WithRemedy("%s", remedy)
	}
	return exit.Failedf(palyra.ReasonInternal, "%s failed: %v", program, err).WithRemedy("correct what it says above, and build again")
}

// sources notes the digests of what a module was built from.
func (b *building) sources(from string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(b.dir, name)
		b.record.Sources[filepath.ToSlash(rel)] = strings.TrimPrefix(string(palyra.SumBytes(raw)), "sha256:")
		return err
	})
}

// finish writes how it was built, and says so.
func (b *building) finish(modules []string) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetIndent("", "  ")
	if err := enc.Encode(b.record); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(b.dir, project.BuildFile), text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("skills: build: %w", err)
	}
	return b.inv.Emit(map[string]any{"modules": b.record.Modules, "tool": b.record.Tool}, func(w io.Writer) {
		for _, m := range modules {
			fmt.Fprintf(w, "%s: built by %s\n", show.Line(m), show.Line(b.record.Tool))
		}
		if len(modules) == 0 {
			fmt.Fprintln(w, "nothing to build: the skill is a folder")
		}
	})
}
