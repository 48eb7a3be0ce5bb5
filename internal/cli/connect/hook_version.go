package connect

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"palyra/internal/cli/invocation"
)

// version is a version of Claude Code; the zero version is unknown.
type version [3]int

// The versions of Claude Code from which a hook may rewrite a tool's input, and from which a
// failing hook blocks the tool if its entry says so. For older ones the entry lacks that word: one
// that they do not understand could disable all hooks of the file.
var (
	rewritesSince = version{2, 0, 10}
	blocksSince   = version{2, 1, 295}
)

func (v version) known() bool { return v != version{} }

// before reports whether v is known to be older than w.
func (v version) before(w version) bool {
	for i := range v {
		if v[i] != w[i] {
			return v.known() && v[i] < w[i]
		}
	}
	return false
}

// String implements fmt.Stringer.
func (v version) String() string {
	if !v.known() {
		return "none here"
	}
	return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])
}

const (
	askPatience = 5 * time.Second
	maxVersion  = 4 << 10
)

var versionForm = regexp.MustCompile(`^(\d{1,6})\.(\d{1,6})\.(\d{1,6})\b`)

// claudeVersion asks the Claude Code on this shell's path for its version.
func claudeVersion(ctx context.Context, inv *invocation.Invocation) version {
	program := onPath(inv, "claude")
	if program == "" {
		return version{}
	}
	ctx, done := context.WithTimeout(ctx, askPatience)
	defer done()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.Env, cmd.WaitDelay = inv.Env, time.Second
	var out capped
	cmd.Stdout = &out
	if cmd.Run() != nil {
		return version{}
	}
	return readVersion(out.Bytes())
}

// onPath is the program of a name on this shell's path; "" if there is none.
func onPath(inv *invocation.Invocation, name string) string {
	path, _ := inv.Variable("PATH")
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if program, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return program
		}
	}
	return ""
}

func readVersion(text []byte) (v version) {
	m := versionForm.FindSubmatch(bytes.TrimSpace(text))
	if m == nil {
		return version{}
	}
	for i := range v {
		v[i], _ = strconv.Atoi(string(m[i+1])) // at most six digits
	}
	return v
}

// capped keeps the beginning of the bytes written to it.
type capped struct{ bytes.Buffer }

// Write implements io.Writer.
func (c *capped) Write(p []byte) (int, error) {
	c.Buffer.Write(p[:min(len(p), max(0, maxVersion-c.Len()))])
	return len(p), nil
}
