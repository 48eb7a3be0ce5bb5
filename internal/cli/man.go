package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"palyra/internal/cli/invocation"
	"palyra/internal/cli/syntax"
)

// manDate stands in every page, so that the same commands give the same bytes.
var manDate = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// manCommand writes the manual pages; the build calls it.
func manCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages into a directory", Args: syntax.Takes("DIR"), Hidden: true,
		Example: "  palyra man docs/man",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("cli: man: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := doc.GenManHeader{Section: "1", Source: "Palyra", Manual: "Palyra", Date: &manDate}
			if err := doc.GenManTree(root, &header, args[0]); err != nil {
				return fmt.Errorf("cli: man: %w", err)
			}
			return nil
		},
	}
}
