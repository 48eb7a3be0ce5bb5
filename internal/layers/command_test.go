package layers

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"palyra/internal/cli"
)

// Commands that documents tell people to type exist, with the flags they are
// shown with.

var (
	typed = regexp.MustCompile("(?m)(?:^ {4}|`)(palyra [a-z][^`\n]*)")
	word  = regexp.MustCompile(`^[a-z][a-z-]*$`)
	flag  = regexp.MustCompile(`--[a-z][a-z-]*`)
)

// help runs a command's --help and returns what it printed.
func help(t *testing.T, words []string) (string, bool) {
	t.Helper()
	var out bytes.Buffer
	code := cli.Main(t.Context(), cli.Process{
		Args: append(append([]string{}, words...), "--help"), Env: []string{"HOME=" + t.TempDir(), "NO_COLOR=1"},
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out,
	})
	return out.String(), code == 0
}

// checkCommand returns what is wrong with a command line, or "".
func checkCommand(t *testing.T, line string) string {
	t.Helper()
	var words []string
	for _, w := range strings.Fields(line)[1:] {
		if !word.MatchString(w) {
			break
		}
		words = append(words, w)
	}
	if len(words) > 2 && words[0] == "agent" && words[1] == "run" { // the name of an agent, and the agent's own words
		words = words[:2]
	}
	text, ok := help(t, words)
	if !ok {
		return "there is no such command"
	}
	usage := ""
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); strings.HasPrefix(l, "palyra ") {
			usage = l
			break
		}
	}
	named := 0
	for i, w := range words {
		if f := strings.Fields(usage); len(f) <= i+1 || f[i+1] != w {
			break
		}
		named++
	}
	if rest := words[named:]; len(rest) > 0 && strings.Contains(text, "Available Commands:") && words[0] != "help" {
		return "there is no command " + strings.Join(rest, " ")
	}
	for _, f := range flag.FindAllString(line, -1) {
		if !strings.Contains(text, f) {
			return "it has no flag " + f
		}
	}
	return ""
}

func TestCommandsInDocumentsExist(t *testing.T) {
	docs, err := filepath.Glob("../../*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, name := range append(append(docs, more...), "../../scripts/run.sh") {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range typed.FindAllStringSubmatch(string(b), -1) {
			line := strings.TrimSpace(strings.Split(m[1], " #")[0])
			if seen[line] {
				continue
			}
			seen[line] = true
			if wrong := checkCommand(t, line); wrong != "" {
				t.Errorf("%s: `%s`: %s", filepath.Base(name), line, wrong)
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d commands found in the documents", len(seen))
	}
}

func TestCheckCommandNotices(t *testing.T) {
	for line, wrong := range map[string]bool{
		"palyra status": false,
		"palyra tools call palyra.echo --input {}": false,
		"palyra teleport":                          true,
		"palyra tools teleport":                    true,
		"palyra tools call palyra.echo --warp":     true,
		"palyra approvals decide ID allow":         false,
	} {
		if got := checkCommand(t, line); (got != "") != wrong {
			t.Errorf("%s: %q", line, got)
		}
	}
}

// The manual pages in docs/man are those of the commands as they are.
func TestManPagesAreFresh(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	code := cli.Main(t.Context(), cli.Process{
		Args: []string{"man", dir}, Env: []string{"HOME=" + t.TempDir()}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out,
	})
	if code != 0 {
		t.Fatalf("palyra man: exit %d: %s", code, out.String())
	}
	fresh, err := os.ReadDir(dir)
	if err != nil || len(fresh) < 20 {
		t.Fatalf("%d pages, %v", len(fresh), err)
	}
	kept, err := os.ReadDir("../../docs/man")
	if err != nil || len(kept) != len(fresh) {
		t.Errorf("docs/man has %d pages of %d (%v): run 'make gen'", len(kept), len(fresh), err)
	}
	for _, f := range fresh {
		want, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join("../../docs/man", f.Name())); err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/man/%s is not what 'palyra man' writes (%v): run 'make gen'", f.Name(), err)
		}
	}
}
