package policy

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
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
)

// rollbackOffline has the daemon's own program change the state, because no other can. It takes the
// daemon's lock, and so refuses while one runs.
func rollbackOffline(ctx context.Context, inv *invocation.Invocation, args []string) error {
	if name := inv.RemoteName(); name != "" {
		return exit.Usagef("--offline is about the state of this machine; leave --remote out")
	}
	c, err := inv.Config()
	if err != nil {
		return err
	}
	program, err := invocation.FindDaemon()
	if err != nil {
		return err
	}
	to := "previous"
	if len(args) == 1 {
		to = args[0]
	}
	cmd := exec.CommandContext(ctx, program, "--rollback-policy", to)
	cmd.Env = slices.Clone(inv.Env)
	if c.Paths.Home != "" {
		cmd.Env = append(cmd.Env, "PALYRA_HOME="+c.Paths.Home)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if status := (*exec.ExitError)(nil); errors.As(err, &status) {
			text, remedy, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(errs.String()), "palyrad: "), "\n  remedy: ")
			return exit.Failedf(palyra.ReasonConfig, "%s", text).WithRemedy("%s", remedy)
		}
		return fmt.Errorf("cli: rollback: %w", err)
	}
	var done client.Activation
	if err := json.Unmarshal(out.Bytes(), &done); err != nil {
		return fmt.Errorf("cli: rollback: %w", err)
	}
	return inv.Emit(done, func(w io.Writer) { printActivation(w, done) })
}
