package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"palyra"
	"palyra/internal/cli/child"
)

// Command tells by a line for the shell, which finds the notice in its variables and, as JSON, on its standard input.
type Command struct {
	Line string
	Env  []string // of the shell
}

// maxSaid is how much of what a command says is kept for the case that it fails.
const maxSaid = 4096

// noticeJSON is a notice as a command reads it.
type noticeJSON struct {
	Text      string              `json:"text"`
	Risk      palyra.RiskLevel    `json:"risk"`
	Count     int                 `json:"count"`
	Asker     palyra.Principal    `json:"asker,omitempty"`
	Approvals []palyra.ApprovalID `json:"approvals"`
}

// Tell implements Way.
func (c Command) Tell(ctx context.Context, n Notice) error {
	in, err := json.Marshal(noticeJSON{n.Text, n.Risk, n.Count, n.Asker, n.All})
	if err != nil {
		return err
	}
	shell, flag := shell()
	cmd := exec.CommandContext(ctx, shell, flag, c.Line)
	end := child.Group(cmd)
	cmd.Cancel, cmd.WaitDelay = func() error { return end(true) }, time.Second
	cmd.Env, cmd.Stdin = append(c.Env[:len(c.Env):len(c.Env)], n.variables()...), bytes.NewReader(in)
	said := &clipped{}
	cmd.Stdout, cmd.Stderr = said, said
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%q was not done after %s", c.Line, patience)
	case err != nil:
		return fmt.Errorf("%q: %w: %s", c.Line, err, strings.TrimSpace(said.String()))
	}
	return nil
}

// clipped keeps the beginning of what is written to it.
type clipped struct{ bytes.Buffer }

// Write implements io.Writer.
func (c *clipped) Write(p []byte) (int, error) {
	_, _ = c.Buffer.Write(p[:min(len(p), maxSaid-c.Len())])
	return len(p), nil
}
