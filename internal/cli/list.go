package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/cli/screen"
	"palyra/internal/durable"
	"palyra/internal/show"
)

// maxPage is the most a daemon returns at once.
const maxPage = 500

// paging adds the flags of a list that comes in pages.
func paging(cmd *cobra.Command, cursor *string, limit *int64) {
	cmd.Flags().StringVar(cursor, "cursor", "", "go on from where a list ended")
	cmd.Flags().Int64Var(limit, "limit", 0, fmt.Sprintf("at most this many, up to %d (default: the daemon's)", maxPage))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *limit < 0 || *limit > maxPage {
			return usage("--limit must be between 0 and %d", maxPage)
		}
		return nil
	}
}

// more says how to see the rest of a list.
func (a *app) more(cursor string) {
	if cursor != "" {
		a.say("palyra: there are more: --cursor %s", show.Arg(cursor))
	}
}

// outFlag adds --out.
func outFlag(cmd *cobra.Command, out *string) {
	cmd.Flags().StringVarP(out, "out", "o", "", "file to write, replaced whole (default: stdout)")
	_ = cmd.MarkFlagFilename("out")
}

// writeTo sends what f writes to stdout, or to a file that appears whole or not
// at all.
func (a *app) writeTo(ctx context.Context, path string, f func(context.Context, io.Writer) error) error {
	if path == "" {
		return f(ctx, a.Stdout)
	}
	var b bytes.Buffer
	if err := f(ctx, &b); err != nil {
		return err
	}
	if err := durable.WriteFile(path, b.Bytes(), 0o600); err != nil {
		return failed(palyra.ReasonInternal, "cannot write %s: %v", path, err)
	}
	a.say("palyra: wrote %s to %s", screen.Size(int64(b.Len())), show.Arg(path))
	return nil
}
