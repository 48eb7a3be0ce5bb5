package syntax

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/screen"
)

// maxPage is the largest page of a daemon.
const maxPage = 500

// Paging adds the flags of a list that comes in pages.
func Paging(cmd *cobra.Command, cursor *string, limit *int64) {
	cmd.Flags().StringVar(cursor, "cursor", "", "go on from where a list ended")
	cmd.Flags().Int64Var(limit, "limit", 0, fmt.Sprintf("at most this many, up to %d (default: the daemon's)", maxPage))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *limit < 0 || *limit > maxPage {
			return exit.Usagef("--limit must be between 0 and %d", maxPage)
		}
		return nil
	}
}

// OutFlag adds --out.
func OutFlag(cmd *cobra.Command, out *string) {
	cmd.Flags().StringVarP(out, "out", "o", "", "file to write, replaced whole (default: stdout)")
	_ = cmd.MarkFlagFilename("out")
}

// When reads the time of a flag.
func When(s string, now time.Time) (time.Time, error) {
	t, err := screen.ParseWhen(s, now)
	if err != nil {
		return time.Time{}, exit.Usagef("%v", err)
	}
	return t, nil
}

// CompleteNothing leaves the words after -- to the shell.
func CompleteNothing(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}
