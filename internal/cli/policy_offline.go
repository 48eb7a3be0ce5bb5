package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"palyra"
	"palyra/client"
)

// rollbackOffline has the daemon's own program change the state, since no other
// knows how. It takes the daemon's lock, and so refuses while one runs.
func (a *app) rollbackOffline(ctx context.Context, args []string) error {
	if name := a.remoteName(); name != "" {
		return usage("--offline is about the state of this machine; leave --remote out")
	}
	c, err := a.config()
	if err != nil {
		return err
	}
	program, err := findDaemon()
	if err != nil {
		return err
	}
	to := "previous"
	if len(args) == 1 {
		to = args[0]
	}
	cmd := exec.CommandContext(ctx, program, "--rollback-policy", to)
	cmd.Env = slices.Clone(a.Env)
	if c.Paths.Home != "" {
		cmd.Env = append(cmd.Env, "PALYRA_HOME="+c.Paths.Home)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			text, remedy, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(errs.String()), "palyrad: "), "\n  remedy: ")
			return failed(palyra.ReasonConfig, "%s", text).WithRemedy("%s", remedy)
		}
		return fmt.Errorf("cli: rollback: %w", err)
	}
	var done client.Activation
	if err := json.Unmarshal(out.Bytes(), &done); err != nil {
		return fmt.Errorf("cli: rollback: %w", err)
	}
	return a.emit(done, func(w io.Writer) { printActivation(w, done) })
}
